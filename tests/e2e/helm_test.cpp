#include <cstdlib>

#include "tests/e2e/installation.hpp"
#include "tests/support/paths.hpp"

// The chart in place of the manifest by which the operator was installed, which comes back at the
// end.

namespace compilecache::e2e {
namespace {

class Helm : public Sandbox {
 protected:
  void SetUp() override {
    Sandbox::SetUp();
    uninstall(manifest_file());
  }

  void TearDown() override {
    remove_release();
    kubectl({"delete", "namespace", std::string(kOperatorNamespace) + "-test", "--ignore-not-found",
             "--timeout=60s"});
    install(manifest_file());
    wait_for_registry();
    Sandbox::TearDown();
  }

  // It must succeed.
  static void call(const std::vector<std::string>& arguments) {
    const auto done = helm(arguments);
    ASSERT_EQ(done.exit_code, 0) << done.err << done.out << operator_logs();
  }
  // `helm COMMAND`, with the registry, until all pods are ready.
  static void release(const std::string& command, const std::vector<std::string>& options) {
    std::vector<std::string> arguments{command,
                                       kRelease,
                                       testing::in_tree("charts/compile-cache"),
                                       "--wait",
                                       "--timeout=3m",
                                       "--set",
                                       "registry.enabled=true"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    call(arguments);
    wait_for_operator();
  }

  // The API server calls a new webhook when it has seen it and the way to its Service.
  void wait_for_injection() {
    const std::string pod = manifest({"tried", {}}).dump();
    ASSERT_TRUE(eventually(seconds(60), [&] {
      const auto tried = kubectl({"create", "--dry-run=server", "-o", "json", "-f", "-"}, pod);
      return tried.exit_code == 0 && !at(json::parse(tried.out), "/spec/initContainers").is_null();
    }));
  }
  // A pod that finds what the first one compiled; it goes on running.
  void expect_warm(const std::string& name) {
    EXPECT_GE(at(run_to_ready({name, {}}), "/hits").get<int>(), 1) << name;
  }
};

TEST_F(Helm, WarmsPodsAcrossUpgradeRollbackAndUninstall) {
  release("install", {"--create-namespace"});
  call({"test", kRelease, "--timeout=8m"});
  EXPECT_TRUE(get_json({"namespace", std::string(kOperatorNamespace) + "-test"}).is_null());
  save_one();
  expect_warm("installed");
  release("upgrade", {"--set", "settings.statusInterval=6s"});
  expect_warm("upgraded");
  call({"rollback", kRelease, "1", "--wait", "--timeout=3m"});
  wait_for_operator();
  expect_warm("rolled-back");

  call({"uninstall", kRelease, "--wait"});
  EXPECT_EQ(at(pod("installed"), "/status/phase"), "Running");
  EXPECT_TRUE(cache().is_object());
  run_to_ready({"after", {"--import-only"}});
  EXPECT_TRUE(at(pod("after"), "/spec/initContainers").is_null());
  release("install", {});
  wait_for_injection();
  expect_warm("again");
}

}  // namespace
}  // namespace compilecache::e2e
