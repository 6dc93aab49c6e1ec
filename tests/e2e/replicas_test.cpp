#include "tests/e2e/sandbox.hpp"
#include "tests/support/pod_load.hpp"

namespace compilecache::e2e {
namespace {

class Replicas : public Sandbox {
 protected:
  [[nodiscard]] int injected_pods() const {
    int count = 0;
    const json list = get_json({"pods", "-n", ns()});
    for (const json& pod : at(list, "/items")) {
      if (at(pod, "/spec/initContainers/0/name") == "compilecache-load") ++count;
    }
    return count;
  }
};

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

// Every call of the webhook that fails refuses its pod, so that none goes unseen.
class FailurePolicyFail {
 public:
  FailurePolicyFail() { set("Fail"); }
  ~FailurePolicyFail() { set("Ignore"); }
  FailurePolicyFail(const FailurePolicyFail&) = delete;
  FailurePolicyFail& operator=(const FailurePolicyFail&) = delete;

 private:
  static void set(const char* policy) {
    const json patch = json::array(
        {{{"op", "replace"}, {"path", "/webhooks/0/failurePolicy"}, {"value", policy}}});
    const auto patched = kubectl({"patch", "mutatingwebhookconfiguration", "compilecache",
                                  "--type=json", "-p", patch.dump()});
    EXPECT_EQ(patched.exit_code, 0) << patched.err;
  }
};

TEST_F(Replicas, PodsDoNotNoticeThatBothAreReplacedTwice) {
  wait_for_operator();
  create_cache();
  wait_until_ready();
  json pod = manifest({.name = "any"});
  pod["metadata"].erase("name");
  pod["metadata"]["generateName"] = "load-";
  pod["spec"]["schedulerName"] = "nobody";  // they need not run
  const FailurePolicyFail strict;
  testing::PodLoad load(testing::client_of_kubeconfig(), pod, 50, [](const json& created) {
    return at(created, "/spec/initContainers/0/name") == "compilecache-load";
  });
  const std::string deployment = std::string("deployment/") + kOperatorDeployment;
  for (int i = 0; i < 2; ++i) {
    kubectl({"rollout", "restart", deployment, "-n", kOperatorNamespace});
    const auto rolled =
        kubectl({"rollout", "status", deployment, "-n", kOperatorNamespace, "--timeout=100s"});
    EXPECT_EQ(rolled.exit_code, 0) << rolled.err;
  }
  // The last of the old replicas drain.
  EXPECT_TRUE(eventually(seconds(60), [] {
    return get_json({"pods", "-n", kOperatorNamespace, "-l",
                     std::string("app.kubernetes.io/name=") + kOperatorDeployment})
               .at("items")
               .size() == 2;
  }));
  const testing::PodLoadResult result = load.stop();
  EXPECT_GT(result.created, 0);
  EXPECT_EQ(result.refused, 0) << result.first_problem;
  EXPECT_EQ(result.uninjected, 0) << result.first_problem;
  EXPECT_EQ(injected_pods(), result.created) << "as the API server has them afterwards";
  std::cout << result.created << " pods were created, the slowest in " << result.slowest_seconds
            << " s\n";
  kubectl({"delete", "--raw", "/api/v1/namespaces/" + ns() + "/pods"});
  wait_for_operator();
}

}  // namespace
}  // namespace compilecache::e2e
