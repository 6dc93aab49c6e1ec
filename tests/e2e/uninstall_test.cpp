#include <cstdlib>

#include "tests/e2e/sandbox.hpp"
#include "tests/support/paths.hpp"

namespace compilecache::e2e {
namespace {

class Uninstall : public Sandbox {
 protected:
  static std::string manifest_file() {
    const char* file = std::getenv("CC_INSTALL_MANIFEST");
    return file == nullptr ? testing::in_tree("config/install.yaml") : file;
  }

  void TearDown() override {
    // As an administrator gives a volume to a new claim. Without the registry there is none.
    kubectl({"patch", "pv", "compilecache-registry", "--type=json", "-p",
             R"([{"op":"replace","path":"/spec/claimRef","value":)"
             R"({"namespace":"compilecache-system","name":"compilecache-registry"}}])"});
    const auto applied = kubectl({"apply", "-f", manifest_file()});
    EXPECT_EQ(applied.exit_code, 0) << applied.err;
    wait_for_operator();
    Sandbox::TearDown();
  }
};

TEST_F(Uninstall, EndsAndLeavesRunningPodsAlone) {
  create_cache();
  wait_until_ready();
  run_to_ready({"running", {}});
  const auto deleted =
      kubectl({"delete", "-f", manifest_file(), "--timeout=120s"}, "", seconds(150));
  EXPECT_EQ(deleted.exit_code, 0) << deleted.err;
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
