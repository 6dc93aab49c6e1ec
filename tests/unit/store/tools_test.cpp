#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/sha256.hpp"
#include "store/access/transfer.hpp"
#include "store/directory/layout.hpp"
#include "store/index.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/registry_process.hpp"
#include "tests/unit/archive/archive_fixture.hpp"

// Other programs read a store. They prove that its format is the one that we claim.

namespace compilecache::archive::test {
namespace {

namespace fs = std::filesystem;

class Tools : public ArchiveTest {
 protected:
  // Without the tool the test fails, so that a proof is never silently missing.
  static void need(const std::string& tool) {
    ASSERT_EQ(std::system(("command -v " + tool + " >/dev/null").c_str()), 0)
        << tool << " is not installed; this test needs Debian's package " << tool;
  }
  std::string layer_path(const WriteResult& saved, size_t layer) {
    return store_.blob_path(saved.archive.layers[layer]);
  }

  // One archive in the index, called llama-3f2a91.
  WriteResult named_archive(int generation = 1) {
    need("skopeo");
    const std::string root = temp_.path("named");
    write_tree(root, {{"a", {noise(100'000, 71), false}}, {"b", {"#!/bin/sh\n", true}}});
    WriteRequest request;
    request.files = sources(root);
    request.annotations = {{kAnnotationName, "llama-3f2a91"},
                           {kAnnotationGeneration, std::to_string(generation)},
                           {"dev.compilecache.key.GPUProduct", "NVIDIA-H100-80GB-HBM3"}};
    const auto saved = write_archive(store_, request);
    EXPECT_TRUE(saved) << saved.error().message;
    EXPECT_TRUE(store_.update_index(
        {saved->archive.manifest, saved->archive.manifest_bytes, request.annotations}));
    return *saved;
  }

  // Makes an archive with deltas, a superseded file, copies in the same and in an earlier layer, a
  // long path, an empty file, and enough frames to need a seek table.
  std::string archive_with_everything(Tree& expected) {
    WriteSettings settings;
    settings.frame_bytes = 64U << 10;
    const std::string big = noise(300'000, 72);
    expected = {{"big", {big, false}},
                {"copy/of/big", {big, false}},
                {"run.sh", {"#!/bin/sh\n", true}},
                {"empty", {"", false}},
                {"autotune.json", {"first", false}},
                {std::string(150, 'l') + "/" + std::string(220, 'm'), {"a long path", false}}};
    const auto first = save(expected, "", settings);
    const Tree more = {{"autotune.json", {"second", false}},
                       {"another/copy/of/big", {big, false}},
                       {"fxgraph/ab/KEY/entry", {noise(70'000, 73), false}}};
    const auto second = save(more, first.archive.manifest, settings);
    EXPECT_EQ(second.archive.layers.size(), 2U);
    for (const auto& [path, file] : more) expected[path] = file;
    return second.archive.manifest;
  }

  std::string other_store() {
    const std::string other = temp_.path("other-store");
    EXPECT_TRUE(store::DirectoryStore(other).prepare(owner_, false));
    return other;
  }
  static Result<store::ImportReport> import_into(const std::string& path, const std::string& tar,
                                                 const store::ImportOptions& options) {
    store::DirectoryStore store(path);
    return store::import_archive(store, tar, options);
  }
  Tree load_from(const std::string& store, const std::string& manifest) {
    const std::string into = temp_.path("loaded-" + std::to_string(++counter_));
    ExtractOptions options;
    options.roots = {{"torch", into}};
    EXPECT_TRUE(extract(store::DirectoryStore(store), manifest, options));
    return read_tree(into);
  }

  static void copy(const std::string& from, const std::string& to) {
    run("skopeo --insecure-policy copy -q " + from + " " + to);
  }
  void expect_same_blobs(const WriteResult& saved, const std::string& layout) {
    for (const std::string& digest : saved.archive.blobs())
      EXPECT_EQ(read_file(store::blob_path(layout, digest)), read_file(store_.blob_path(digest)))
          << digest;
  }

  inline static const std::string kReader =
      "python3 " + testing::in_tree("tests/support/archive_reader.py") + " ";
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
  const WriteResult saved = named_archive();
  const std::string from = "oci:" + store_.path() + ":llama-3f2a91";
  const auto manifest = nlohmann::json::parse(run("skopeo inspect --raw " + from));
  EXPECT_EQ(manifest["artifactType"], kArtifactType);
  EXPECT_EQ(manifest["layers"][0]["digest"], saved.archive.layers[0]);

  copy(from, "oci:" + temp_.path("copy") + ":x");
  expect_same_blobs(saved, temp_.path("copy"));
}

TEST_F(Tools, ByWayOfAnOciArchiveNothingChanges) {
  const WriteResult saved = named_archive();
  const std::string tar = temp_.path("archive.tar");
  copy("oci:" + store_.path() + ":llama-3f2a91", "oci-archive:" + tar + ":x");
  EXPECT_EQ(run("skopeo inspect --raw oci-archive:" + tar),
            read_file(store_.blob_path(saved.archive.manifest)));
  copy("oci-archive:" + tar, "oci:" + temp_.path("back") + ":x");
  expect_same_blobs(saved, temp_.path("back"));

  const std::string other = other_store();
  const auto imported = import_into(other, tar, {});
  ASSERT_TRUE(imported) << imported.error().message;
  EXPECT_EQ(imported->archive.manifest, saved.archive.manifest);
  expect_same_blobs(saved, other);
}

TEST_F(Tools, ByWayOfARegistryNothingChanges) {
  need("docker-registry");
  const WriteResult saved = named_archive();
  const testing::RegistryProcess registry(testing::RegistryKind::kDebian, temp_.path("registry"));
  ASSERT_EQ(registry.problem(), "");
  const std::string there = "docker://" + registry.host() + "/caches/llama:v1";
  copy("--dest-tls-verify=false oci:" + store_.path() + ":llama-3f2a91", there);
  const auto manifest =
      nlohmann::json::parse(run("skopeo inspect --raw --tls-verify=false " + there));
  EXPECT_EQ(manifest["artifactType"], kArtifactType);
  copy("--src-tls-verify=false " + there, "oci:" + temp_.path("back") + ":x");
  expect_same_blobs(saved, temp_.path("back"));
}

TEST_F(Tools, WhatIsExportedIsAnArchiveForSkopeo) {
  const WriteResult saved = named_archive();
  const std::string tar = temp_.path("export.tar");
  const auto exported = store::export_archive(store_, saved.archive.manifest, tar, {"llama"});
  ASSERT_TRUE(exported) << exported.error().message;
  EXPECT_EQ(exported->digest, saved.archive.manifest);
  EXPECT_EQ(exported->bytes, fs::file_size(tar));
  EXPECT_EQ(run("skopeo inspect --raw oci-archive:" + tar + ":llama"),
            read_file(store_.blob_path(saved.archive.manifest)));
  copy("oci-archive:" + tar, "oci:" + temp_.path("copy") + ":x");
  expect_same_blobs(saved, temp_.path("copy"));
}

// The archive has two layers, a copy that only the config lists, a superseded file and an
// executable.
TEST_F(Tools, AnImageOfAnArchiveHasItsFiles) {
  Tree expected;
  const std::string head = archive_with_everything(expected);
  const std::string tar = temp_.path("image.tar");
  const auto exported = store::export_archive(store_, head, tar, {"llama", true, "arm64"});
  ASSERT_TRUE(exported) << exported.error().message;
  // skopeo shows this only for images, not for artifacts.
  const auto shown = nlohmann::json::parse(run("skopeo inspect oci-archive:" + tar));
  EXPECT_EQ(shown["Architecture"], "arm64");
  EXPECT_EQ(shown["Labels"], nullptr);
  ASSERT_EQ(shown["Layers"].size(), 1U);
  copy("oci-archive:" + tar, "oci:" + temp_.path("image") + ":x");
  const auto config = nlohmann::json::parse(run("skopeo inspect --config oci-archive:" + tar));
  const std::string layer =
      store::blob_path(temp_.path("image"), shown["Layers"][0].get<std::string>());
  EXPECT_EQ(config["rootfs"]["diff_ids"][0].get<std::string>() + "  -\n",
            "sha256:" + run("zstd -dcq " + layer + " | sha256sum"));

  fs::create_directories(temp_.path("unpacked"));
  run("tar --zstd -xf " + layer + " -C " + temp_.path("unpacked"));
  EXPECT_EQ(read_tree(temp_.path("unpacked/torch")), expected);
  for (const std::string& name : names_below(temp_.path("")))
    EXPECT_EQ(name.find("image.tar."), std::string::npos) << name << " is left over";
}

TEST_F(Tools, AnImageCannotBeImported) {
  const WriteResult saved = named_archive();
  const std::string tar = temp_.path("image.tar");
  ASSERT_TRUE(store::export_archive(store_, saved.archive.manifest, tar, {"llama", true}));
  const auto imported = import_into(other_store(), tar, {});
  ASSERT_FALSE(imported);
  EXPECT_EQ(imported.error().code, ErrorCode::kInvalid);
  EXPECT_NE(imported.error().message.find("artifactType is (none)"), std::string::npos)
      << imported.error().message;
}

TEST_F(Tools, ImportChecksEveryByteBeforeItNamesAnything) {
  const WriteResult saved = named_archive();
  const std::string tar = temp_.path("export.tar");
  ASSERT_TRUE(store::export_archive(store_, saved.archive.manifest, tar, {}));
  const std::string other = other_store();
  const std::string good = read_file(tar);
  for (size_t at = 100; at < good.size(); at += good.size() / 25) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 1);
    if (bad == good) continue;
    write_file(temp_.path("bad.tar"), bad);
    const auto imported = import_into(other, temp_.path("bad.tar"), {});
    if (imported) {
      EXPECT_EQ(load_from(other, imported->archive.manifest), load(saved.archive.manifest));
    } else {
      EXPECT_TRUE(store::DirectoryStore(other).read_index()->entries.empty())
          << "flipped byte " << at;
    }
    fs::remove_all(other);
    ASSERT_TRUE(store::DirectoryStore(other).prepare(owner_, false));
  }
  for (const size_t size : {size_t{0}, size_t{700}, good.size() / 2, good.size() - 1024}) {
    write_file(temp_.path("bad.tar"), good.substr(0, size));
    EXPECT_FALSE(import_into(other, temp_.path("bad.tar"), {})) << size;
    EXPECT_TRUE(store::DirectoryStore(other).read_index()->entries.empty()) << size;
  }
}

TEST_F(Tools, ImportNeverReplacesALaterSave) {
  const WriteResult saved = named_archive(3);
  const std::string tar = temp_.path("export.tar");
  ASSERT_TRUE(store::export_archive(store_, saved.archive.manifest, tar, {}));
  const auto again = store::import_archive(store_, tar, {});
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_TRUE(again->existed);

  const WriteResult later = save({{"later", {"x", false}}}, saved.archive.manifest);
  ASSERT_TRUE(
      store_.update_index({later.archive.manifest,
                           later.archive.manifest_bytes,
                           {{kAnnotationName, "llama-3f2a91"}, {kAnnotationGeneration, "4"}}}));
  const auto refused = store::import_archive(store_, tar, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kConflict);
  EXPECT_NE(refused.error().message.find("--name"), std::string::npos) << refused.error().message;
  const auto renamed = store::import_archive(store_, tar, {"before"});
  ASSERT_TRUE(renamed) << renamed.error().message;
  EXPECT_EQ(store_.read_index()->entries.size(), 2U);
}

TEST_F(Tools, ExportNeverOverwritesAndLeavesNothingBehind) {
  const WriteResult saved = named_archive();
  write_file(temp_.path("there.tar"), "mine");
  const auto refused =
      store::export_archive(store_, saved.archive.manifest, temp_.path("there.tar"), {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kConflict);
  EXPECT_EQ(read_file(temp_.path("there.tar")), "mine");

  const std::string layer = layer_path(saved, 0);
  std::string bytes = read_file(layer);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  write_file(layer, bytes);
  for (const bool image : {false, true}) {
    fs::create_directories(temp_.path("out"));
    const auto corrupt =
        store::export_archive(store_, saved.archive.manifest, temp_.path("out/x.tar"), {"", image});
    ASSERT_FALSE(corrupt);
    EXPECT_EQ(corrupt.error().code, ErrorCode::kCorrupt) << corrupt.error().message;
    EXPECT_TRUE(names_below(temp_.path("out")).empty());
  }
}

// tests/support/archive_reader.py was written from docs/design/archive-format.md alone.
TEST_F(Tools, AnotherReaderReadsTheSame) {
  Tree expected;
  const std::string head = archive_with_everything(expected);
  const std::string into = temp_.path("by-python");
  run(std::string(kReader) + store_.path() + " " + head + " " + into);
  EXPECT_EQ(read_tree(into + "/torch"), expected);
  EXPECT_EQ(load(head), expected);
}

TEST_F(Tools, AnotherReaderReadsARealCache) {
  unpack_real_cache("vllm-triton-rocm", temp_.path("real"));
  const Tree tree = read_tree(temp_.path("real"));
  const std::string head = save(tree).archive.manifest;
  run(std::string(kReader) + store_.path() + " " + head + " " + temp_.path("by-python"));
  EXPECT_EQ(read_tree(temp_.path("by-python/torch")), load(head));
}

TEST_F(Tools, AnotherReaderRefusesWhatIsDamagedOrNewer) {
  const WriteResult saved = named_archive();
  const std::string into = temp_.path("by-python");
  for (const std::string& digest : saved.archive.blobs()) {
    const std::string path = store_.blob_path(digest);
    const std::string good = read_file(path);
    for (size_t at = 0; at < good.size(); at += good.size() / 3) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ 1);
      write_file(path, bad);
      const std::string said = run("! " + std::string(kReader) + store_.path() + " " +
                                   saved.archive.manifest + " " + into);
      EXPECT_NE(said.find("refused: "), std::string::npos) << said;
      EXPECT_TRUE(names_below(into).empty());
    }
    write_file(path, good);
  }
  std::string newer = read_file(store_.blob_path(saved.archive.manifest));
  newer.replace(newer.find("archive.v1"), 10, "archive.v2");
  const std::string digest = "sha256:" + sha256_hex(newer);
  write_file(store_.blob_path(digest), newer);
  const std::string said =
      run("! " + std::string(kReader) + store_.path() + " " + digest + " " + into);
  EXPECT_NE(said.find("archive.v2"), std::string::npos) << said;
}

}  // namespace
}  // namespace compilecache::archive::test
