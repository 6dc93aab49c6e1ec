#include "tests/e2e/installation.hpp"

namespace compilecache::e2e {
namespace {

class Uninstall : public Sandbox {
 protected:
  void TearDown() override {
    free_registry_volume();
    install(manifest_file());
    Sandbox::TearDown();
  }
};

TEST_F(Uninstall, EndsAndLeavesRunningPodsAlone) {
  create_cache();
  wait_until_ready();
  run_to_ready({"running", {}});
  uninstall(manifest_file());
  EXPECT_EQ(at(pod("running"), "/status/phase"), "Running");
  EXPECT_EQ(at(pod("running"), "/status/containerStatuses/0/restartCount"), 0);
  for (const json& condition : at(pod("running"), "/status/conditions")) {
    if (condition["type"] == "Ready") {
      EXPECT_EQ(condition["status"], "True");
    }
  }
  run_to_ready({"new", {"--import-only"}});
  EXPECT_TRUE(at(pod("new"), "/spec/initContainers").is_null());
}

TEST_F(Uninstall, ANamespaceWithCachesEndsWithoutTheOperator) {
  create_cache();
  wait_until_ready();
  run_to_ready({"one", {}});
  wait_for_save();
  kubectl({"scale", "deployment/compilecache-operator", "-n", kOperatorNamespace, "--replicas=0"});
  ASSERT_TRUE(eventually(seconds(90), operator_is_gone));
  kubectl({"delete", "namespace", ns(), "--wait=false"});
  EXPECT_TRUE(eventually(seconds(90), [&] { return get_json({"namespace", ns()}).is_null(); }));
}

}  // namespace
}  // namespace compilecache::e2e
