#include <gtest/gtest.h>

#include <cstdlib>

#include "archive/format.hpp"
#include "store/access/copy.hpp"
#include "store/directory/directory_store.hpp"
#include "tests/unit/store/released_registry.hpp"

// skopeo works on what a save pushes to a registry, with the tag of that save: it reads it, takes
// it away and brings it back, and digests stay the same.

namespace compilecache::store::test {
namespace {

using archive::test::Tree;

class Skopeo : public ReleasedRegistry {
 protected:
  void SetUp() override {
    ReleasedRegistry::SetUp();
    ASSERT_EQ(std::system("command -v skopeo >/dev/null"), 0)
        << "this test needs Debian's package skopeo";
  }
  [[nodiscard]] std::string url(const std::string& name, const std::string& tag) const {
    return "docker://" + registry_->host() + "/" + name + ":" + tag;
  }
};

INSTANTIATE_TEST_SUITE_P(Kinds, Skopeo, released_kinds(), kind_name);

TEST_P(Skopeo, ReadsTakesAwayAndBringsBackWhatASavePushed) {
  const Tree tree{{"a", {archive::test::noise(1'000'000, 1), false}},
                  {"b/c", {std::string(70'000, 'x'), true}}};
  RegistryStore store(repository("ml/caches/team-a/llama"));
  const std::string digest = save(store, tree);
  const std::string tag = tag_of_save(digest);

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
  // The copy is an archive of the repository as if it had been saved there.
  const auto archives = brought.upkeep()->archives();
  ASSERT_TRUE(archives) << archives.error().message;
  ASSERT_EQ(archives->entries.size(), 1U);
  EXPECT_EQ(archives->entries.front().digest, digest);
  EXPECT_EQ(archives->entries.front().generation(), 7U);
}

// Between repositories without a file in between, and from one kind of store into another.
TEST_P(Skopeo, FindsWhatWasCopiedWithoutIt) {
  const Tree tree{{"a", {archive::test::noise(1'000'000, 2), false}}};
  DirectoryStore volume(temp_.path("volume"));
  ASSERT_TRUE(volume.prepare({}, false));
  const std::string digest = save(volume, tree);
  RegistryStore first(repository("ml/first")), second(repository("ml/second"));
  const auto pushed = copy_archive(volume, first, digest);
  ASSERT_TRUE(pushed) << pushed.error().message;
  const auto copied = copy_archive(first, second, digest);
  ASSERT_TRUE(copied) << copied.error().message;
  EXPECT_TRUE(archive::verify(second, digest));
  archive::test::run("skopeo inspect --raw --tls-verify=false " +
                     url("ml/second", tag_of_save(digest)));
}

}  // namespace
}  // namespace compilecache::store::test
