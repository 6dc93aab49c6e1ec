#include <cstdlib>
#include <nlohmann/json.hpp>

#include "archive/index.hpp"
#include "archive_fixture.hpp"

// What other programs make of a store: they are our proof that the format is what it says.

namespace compilecache::archive::test {
namespace {

namespace fs = std::filesystem;

class Tools : public ArchiveTest {
 protected:
  // Without the tool the test fails: what it proves would otherwise be lost in silence.
  static void need(const std::string& tool) {
    ASSERT_EQ(std::system(("command -v " + tool + " >/dev/null").c_str()), 0)
        << tool << " is not installed; this test needs Debian's package " << tool;
  }
  std::string layer_path(const WriteResult& saved, size_t layer) {
    return blob_path(store_, saved.archive.layers[layer]);
  }
};

TEST_F(Tools, GnuTarUnpacksALayer) {
  need("zstd");
  unpack_real_cache("inductor-cpu-torch2.14", temp_.path("real"));
  Tree tree = read_tree(temp_.path("real"));
  tree[std::string(150, 'l') + "/" + std::string(220, 'm')] = {"a long path", true};
  tree["copy-of-large"] = tree["large"] = {noise(9 << 20, 70), false};
  const auto saved = save(tree);
  const std::string layer = layer_path(saved, 0);

  std::vector<std::string> expected;
  for (const auto& [path, file] : tree) expected.push_back("torch/" + path);
  std::vector<std::string> listed;
  std::istringstream lines(run("tar --zstd -tf " + layer));
  for (std::string line; std::getline(lines, line);)
    if (!line.ends_with('/')) listed.push_back(line);
  std::sort(listed.begin(), listed.end());
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(listed, expected);

  fs::create_directories(temp_.path("unpacked"));
  run("tar --zstd -xf " + layer + " -C " + temp_.path("unpacked"));
  EXPECT_EQ(read_tree(temp_.path("unpacked/torch")), tree);
}

TEST_F(Tools, GnuTarUnpacksADelta) {
  const auto first = save({{"a", {"1", false}}});
  const auto second = save({{"b/c", {"2", true}}}, first.archive.manifest);
  fs::create_directories(temp_.path("unpacked"));
  run("tar --zstd -xf " + layer_path(second, 1) + " -C " + temp_.path("unpacked"));
  EXPECT_EQ(read_tree(temp_.path("unpacked")), (Tree{{"torch/b/c", {"2", true}}}));
}

TEST_F(Tools, SkopeoInspectsAndCopiesAnArchive) {
  need("skopeo");
  const auto saved = save({{"a", {noise(100'000, 71), false}}});
  ASSERT_TRUE(upsert_index_entry(
      store_, {saved.archive.manifest,
               saved.archive.manifest_bytes,
               {{kAnnotationName, "llama-3f2a91"}, {kAnnotationGeneration, "1"}}}));
  const std::string from = "oci:" + store_ + ":llama-3f2a91";
  const auto manifest = nlohmann::json::parse(run("skopeo inspect --raw " + from));
  EXPECT_EQ(manifest["artifactType"], kArtifactType);
  EXPECT_EQ(manifest["layers"][0]["digest"], saved.archive.layers[0]);

  run("skopeo --insecure-policy copy -q " + from + " oci:" + temp_.path("copy") + ":x");
  for (const std::string& digest : saved.archive.blobs()) {
    EXPECT_EQ(read_file(blob_path(temp_.path("copy"), digest)),
              read_file(blob_path(store_, digest)))
        << digest;
  }
}

}  // namespace
}  // namespace compilecache::archive::test
