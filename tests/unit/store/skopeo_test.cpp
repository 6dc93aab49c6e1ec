#include <gtest/gtest.h>

#include <cstdlib>

#include "archive/format.hpp"
#include "store/access/copy.hpp"
#include "store/directory/directory_store.hpp"
#include "store/registry/registry_store.hpp"
#include "tests/support/registry_process.hpp"
#include "tests/unit/archive/archive_fixture.hpp"

// skopeo works on what a save pushes to a registry, with the tag of that save: it reads it, takes
// it away and brings it back, and digests stay the same.

namespace compilecache::store::test {
namespace {

using archive::test::Tree;
using testing::RegistryKind;
using testing::RegistryProcess;

class Skopeo : public ::testing::TestWithParam<RegistryKind> {
 protected:
  void SetUp() override {
    if (const std::string missing = testing::missing_registry(GetParam()); !missing.empty())
      GTEST_SKIP() << missing;
    ASSERT_EQ(std::system("command -v skopeo >/dev/null"), 0)
        << "this test needs Debian's package skopeo";
    registry_ = std::make_unique<RegistryProcess>(GetParam(), temp_.path("registry"));
    ASSERT_EQ(registry_->problem(), "");
  }

  [[nodiscard]] RegistryOptions repository(const std::string& name) const {
    return {.host = registry_->host(),
            .repository = name,
            .plain_http = true,
            .spool_folder = temp_.path()};
  }
  [[nodiscard]] std::string url(const std::string& name, const std::string& tag) const {
    return "docker://" + registry_->host() + "/" + name + ":" + tag;
  }

  archive::test::TempDir temp_;
  std::unique_ptr<RegistryProcess> registry_;
};

INSTANTIATE_TEST_SUITE_P(Kinds, Skopeo,
                         ::testing::Values(RegistryKind::kDebian, RegistryKind::kDistribution),
                         [](const auto& kind) {
                           return kind.param == RegistryKind::kDebian ? "Debian" : "Distribution";
                         });

TEST_P(Skopeo, ReadsTakesAwayAndBringsBackWhatASavePushed) {
  const Tree tree{{"a", {archive::test::noise(1'000'000, 1), false}},
                  {"b/c", {std::string(70'000, 'x'), true}}};
  archive::test::write_tree(temp_.path("source"), tree);
  archive::WriteRequest request;
  request.annotations = {{archive::kAnnotationName, "llama-3f2a91"},
                         {archive::kAnnotationGeneration, "7"}};
  for (const auto& [path, file] : tree)
    request.files.push_back({temp_.path("source") + "/" + path, "torch/" + path});
  RegistryStore store(repository("ml/caches/team-a/llama"));
  const auto saved = archive::write_archive(store, std::move(request));
  ASSERT_TRUE(saved) << saved.error().message;
  const std::string digest = saved->archive.manifest;
  const std::string tag = "g7-" + digest.substr(7, 12);

  using archive::test::run;
  const std::string pushed = url("ml/caches/team-a/llama", tag);
  const std::string raw = run("skopeo inspect --raw --tls-verify=false " + pushed);
  const auto manifest =
      archive::read_blob(store, {archive::kManifestMediaType, digest, 0}, 1U << 20);
  ASSERT_TRUE(manifest);
  EXPECT_EQ(raw, *manifest);

  const std::string layout = temp_.path("layout");
  run("skopeo copy --insecure-policy --src-tls-verify=false " + pushed + " oci:" + layout +
      ":llama");
  DirectoryStore taken(layout);
  const auto whole = archive::verify(taken, digest);
  ASSERT_TRUE(whole) << whole.error().message;
  EXPECT_EQ(whole->files, 2U);

  run("skopeo copy --insecure-policy --dest-tls-verify=false oci:" + layout + ":llama " +
      url("other/llama", tag));
  RegistryStore brought(repository("other/llama"));
  const auto again = archive::verify(brought, digest);
  ASSERT_TRUE(again) << again.error().message;
  // What it brought is an archive of the repository as if it had been saved there.
  const auto archives = brought.upkeep()->archives();
  ASSERT_TRUE(archives) << archives.error().message;
  ASSERT_EQ(archives->size(), 1U);
  EXPECT_EQ(archives->front().digest, digest);
  EXPECT_EQ(archives->front().generation(), 7U);
}

// Between repositories without a file in between, and from one kind of store into another.
TEST_P(Skopeo, FindsWhatWasCopiedWithoutIt) {
  const Tree tree{{"a", {archive::test::noise(1'000'000, 2), false}}};
  archive::test::write_tree(temp_.path("source"), tree);
  DirectoryStore volume(temp_.path("volume"));
  ASSERT_TRUE(volume.prepare({}, false));
  archive::WriteRequest request;
  request.annotations = {{archive::kAnnotationName, "llama-3f2a91"},
                         {archive::kAnnotationGeneration, "7"}};
  request.files = {{temp_.path("source") + "/a", "torch/a"}};
  const auto saved = archive::write_archive(volume, std::move(request));
  ASSERT_TRUE(saved) << saved.error().message;
  const std::string digest = saved->archive.manifest;
  RegistryStore first(repository("ml/first")), second(repository("ml/second"));
  const auto pushed = copy_archive(volume, first, digest);
  ASSERT_TRUE(pushed) << pushed.error().message;
  const auto copied = copy_archive(first, second, digest);
  ASSERT_TRUE(copied) << copied.error().message;
  EXPECT_TRUE(archive::verify(second, digest));
  archive::test::run("skopeo inspect --raw --tls-verify=false " +
                     url("ml/second", "g7-" + digest.substr(7, 12)));
}

}  // namespace
}  // namespace compilecache::store::test
