#include "tests/e2e/sandbox.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/process.hpp"

namespace compilecache::e2e {
namespace {

class Move : public Sandbox {
 protected:
  [[nodiscard]] testing::ProcessResult plugin(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), testing::in_build("cli/kubectl-compilecache"));
    arguments.insert(arguments.end(), {"-n", ns()});
    return testing::run_process(arguments, "", std::chrono::seconds(240));
  }
  [[nodiscard]] json archive_of(const std::string& name) const {
    for (const json& archive : archives()) {
      if (at(archive, "/spec/cache") == name) return archive;
    }
    return json::object();
  }
};

// docs/move.md, from a claim into the installation's own registry.
TEST_F(Move, ArchivesGoAlongFromAVolumeToTheRegistry) {
  create_cache("old", on_the_claim());
  wait_until_ready("old");
  run_to_ready({"cold", {}, "old"});
  wait_for_save();
  remove_pod("cold");
  const json saved = archive_of("old");

  const auto verified = plugin({"verify", "old"});  // by a Job that mounts the claim
  EXPECT_EQ(verified.exit_code, 0) << verified.err << verified.out;
  EXPECT_NE(verified.out.find("whole    old/"), std::string::npos) << verified.out;

  const auto copied = plugin({"copy", "old", "--to", "new", "--timeout", "180"});
  ASSERT_EQ(copied.exit_code, 0) << copied.err << cache("new");
  EXPECT_EQ(at(archive_of("new"), "/status/head/manifestDigest"),
            at(saved, "/status/head/manifestDigest"));
  EXPECT_EQ(at(run_to_ready({"warm", {}, "new"}), "/misses"), 0)
      << logs("warm", "compilecache-load");
  EXPECT_EQ(at(archive_of("old"), "/status/head"), at(saved, "/status/head")) << "it is left alone";
}

}  // namespace
}  // namespace compilecache::e2e
