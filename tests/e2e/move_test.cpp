#include "tests/e2e/sandbox.hpp"

namespace compilecache::e2e {
namespace {

class Move : public Sandbox {
 protected:
  [[nodiscard]] json archive_of(const std::string& name) const {
    for (const json& archive : archives()) {
      if (at(archive, "/spec/cache") == name) return archive;
    }
    return json::object();
  }
};

// docs/move.md, from a claim into the installation's own registry.
TEST_F(Move, ArchivesGoAlongFromAVolumeToTheRegistry) {
  create_cache("old");
  wait_until_ready("old");
  run_to_ready({"cold", {}, "old"});
  wait_for_save();
  remove_pod("cold");
  const json saved = archive_of("old");

  create_cache(
      "new",
      {{"storage",
        {{"claimName", nullptr}, {"copyFrom", {{"cache", "old"}, {"claimName", "caches"}}}}}});
  const auto copied = kubectl(
      {"wait", "cc", "new", "-n", ns(), "--for=condition=ArchivesCopied", "--timeout=180s"});
  ASSERT_EQ(copied.exit_code, 0) << copied.err << cache("new");
  EXPECT_EQ(at(archive_of("new"), "/status/head/manifestDigest"),
            at(saved, "/status/head/manifestDigest"));
  EXPECT_EQ(at(run_to_ready({"warm", {}, "new"}), "/misses"), 0)
      << logs("warm", "compilecache-load");
  EXPECT_EQ(at(archive_of("old"), "/status/head"), at(saved, "/status/head")) << "it is left alone";
}

}  // namespace
}  // namespace compilecache::e2e
