#include "tests/e2e/sandbox.hpp"

namespace compilecache::e2e {
namespace {

class Replicas : public Sandbox {};

TEST_F(Replicas, WhenTheLeaderIsKilledTheOtherTakesOverAndNothingIsLost) {
  wait_for_operator();
  create_cache();
  wait_until_ready();
  start({"one", {}});
  const std::string old_leader = leader_pod();
  wait_for_result("one");
  const auto killed = kubectl(
      {"delete", "pod", old_leader, "-n", kOperatorNamespace, "--grace-period=0", "--force"});
  ASSERT_EQ(killed.exit_code, 0) << killed.err;

  // Pods go on being created and injected: the other replica serves.
  for (int i = 0; i < 5; ++i) {
    const std::string name = "during-" + std::to_string(i);
    start({name, {"--import-only"}});
    EXPECT_EQ(at(pod(name), "/spec/initContainers/0/name"), "compilecache-load") << name;
  }
  ASSERT_TRUE(eventually(seconds(45), [&] {
    const std::string now = leader_pod();
    return !now.empty() && now != old_leader;
  }));
  wait_for_save(1, "", seconds(120));
  remove_pod("one");
  EXPECT_EQ(at(run_to_ready({"two", {}}), "/misses"), 0);
  wait_for_operator();
}

}  // namespace
}  // namespace compilecache::e2e
