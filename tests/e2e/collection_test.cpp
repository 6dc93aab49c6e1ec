#include <filesystem>
#include <fstream>

#include "tests/e2e/sandbox.hpp"

namespace compilecache::e2e {
namespace {

namespace fs = std::filesystem;

class Collection : public Sandbox {};

TEST_F(Collection, TakesWhatIsUnusedAndLeavesWhatIsInUse) {
  // Condemned blobs stay at least as long as a load may take.
  create_cache(
      "transformer",
      {{"retention", {{"unusedFor", "20s"}, {"sweepInterval", "10s"}, {"incompleteTimeout", "5s"}}},
       {"load", {{"timeout", "10s"}}}});
  wait_until_ready();
  // Two archives of one product, the older of which nobody will use.
  run_to_ready({"old", {}, "transformer", {{"compilecache.dev/version", "1"}}});
  const json old_archive = wait_for_save();
  const std::string old_name = at(old_archive, "/metadata/name");
  remove_pod("old");
  run_to_ready({"user", {"--shapes", "16"}, "transformer", {{"compilecache.dev/version", "2"}}});
  json kept;
  ASSERT_TRUE(eventually(seconds(60), [&] {
    for (const json& archive : archives()) {
      if (at(archive, "/metadata/name") != old_name && at(archive, "/status/head").is_object())
        kept = archive;
    }
    return !kept.is_null();
  }));

  // Leftovers of a killed save.
  const fs::path leftover =
      fs::path(volume()) / "transformer/blobs/sha256/0123456789abcdef.incomplete";
  if (!place().in_registry()) std::ofstream(leftover) << "half a layer";

  EXPECT_TRUE(eventually(seconds(120), [&] {
    return get_json({"cca", old_name, "-n", ns()}).is_null();
  })) << "the stale archive is still there";
  EXPECT_TRUE(eventually(seconds(120), [&] {
    const auto present = place().blobs("transformer");
    if (place().in_registry()) {
      // Nobody can name what is left, which goes when the registry is rolled.
      return !present.contains(at(old_archive, "/status/head/manifestDigest").get<std::string>());
    }
    for (const json& digest : at(old_archive, "/status/head/blobs")) {
      if (present.contains(digest.get<std::string>())) return false;
    }
    return true;
  })) << "the stale archive's blobs are still there";
  EXPECT_TRUE(eventually(seconds(60), [&] { return !fs::exists(leftover); }));

  const json still = get_json({"cca", at(kept, "/metadata/name").get<std::string>(), "-n", ns()});
  ASSERT_TRUE(still.is_object()) << "the archive in use was deleted";
  for (const json& digest : at(still, "/status/head/blobs")) {
    EXPECT_TRUE(fs::exists(blob_path(digest))) << digest;
  }
  EXPECT_TRUE(
      eventually(seconds(30), [&] { return at(cache(), "/status/lastSweep/time").is_string(); }));
}

}  // namespace
}  // namespace compilecache::e2e
