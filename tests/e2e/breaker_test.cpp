#include <sys/types.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "tests/e2e/sandbox.hpp"
#include "tests/support/paths.hpp"

// The injection keeps pods from starting: later ones start without, until it works again.

namespace compilecache::e2e {
namespace {

namespace fs = std::filesystem;

class Breaker : public Sandbox {
 protected:
  void TearDown() override {
    if (image_is_hidden_) show_image();
    Sandbox::TearDown();
  }

  // Compiles nothing: whether it starts is what matters.
  void start_sleeper(const std::string& name) {
    TorchPod how{name};
    how.image = "docker.io/library/debian:bookworm-slim";
    json pod = manifest(how);
    pod["spec"]["containers"][0]["command"] = {"sleep", "3600"};
    ASSERT_EQ(testing::apply(pod), "");
  }
  bool is_injected(const std::string& name) const {
    const json first = at(pod(name), "/spec/initContainers/0/name");
    return first == "compilecache-load" || first == "compilecache-save";
  }
  bool runs(const std::string& name, seconds limit = seconds(60)) const {
    return eventually(limit,
                      [&] { return at(pod(name), "/status/containerStatuses/0/ready") == true; });
  }
  json condition(const std::string& type) const {
    for (const json& each : at(cache(), "/status/conditions")) {
      if (each.value("type", "") == type) return each;
    }
    return json::object();
  }
  bool paused_is(const std::string& status, seconds limit) const {
    return eventually(limit,
                      [&] { return condition("InjectionPaused").value("status", "") == status; });
  }
  // A user sees why, and that the next pod starts without the cache.
  void expect_paused(const std::string& reason, const std::string& stuck) {
    ASSERT_TRUE(paused_is("True", seconds(120))) << cache();
    start_sleeper("next");
    EXPECT_FALSE(is_injected("next"));
    EXPECT_EQ(condition("InjectionPaused").value("reason", ""), reason) << cache();
    EXPECT_EQ(condition("Ready").value("reason", ""), "InjectionPaused");
    EXPECT_NE(at(cache(), "/status/stuckPods").dump().find("\"" + stuck + "\""), std::string::npos)
        << cache();
    EXPECT_TRUE(runs("next"));
  }
  void expect_goes_on() {
    ASSERT_TRUE(paused_is("False", seconds(240))) << cache();
    start_sleeper("last");
    EXPECT_TRUE(is_injected("last"));
    EXPECT_TRUE(runs("last"));
  }

  // The operator's image vanishes from the node, as far as the kubelet can see.
  void hide_image() {
    image_ = at(get_json({"deployment", kOperatorDeployment, "-n", kOperatorNamespace}),
                "/spec/template/spec/containers/0/image");
    ctr({"tag", "--force", image_, image_ + "-hidden"});
    ctr({"rm", image_});
    image_is_hidden_ = true;
  }
  void show_image() {
    ctr({"tag", "--force", image_ + "-hidden", image_});
    ctr({"rm", image_ + "-hidden"});
    image_is_hidden_ = false;
  }
  // Calls the node's containerd; the cluster is known by the folder of its kubeconfig.
  static void ctr(const std::vector<std::string>& arguments) {
    const fs::path kubeconfig = std::getenv("KUBECONFIG");
    std::vector<std::string> command{testing::in_tree("tests/cluster/cluster"), "ctr",
                                     kubeconfig.parent_path().filename(), "images"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    const auto done = testing::run_process(command);
    EXPECT_EQ(done.exit_code, 0) << done.out << done.err;
  }
  // All of its container, as the kernel does where a node has too little memory.
  void kill_saver_of(const std::string& uid) const {
    std::istringstream pids(testing::run_process({"pgrep", "-f", "^compilecache-supervise "}).out);
    for (pid_t process = 0; pids >> process;) {
      std::ifstream environment("/proc/" + std::to_string(process) + "/environ");
      const std::string all((std::istreambuf_iterator<char>(environment)), {});
      if (all.find(uid) != std::string::npos) ::kill(process, SIGKILL);
    }
  }

 private:
  std::string image_;
  bool image_is_hidden_ = false;
};

TEST_F(Breaker, AnImageThatDoesNotExist) {
  create_cache();
  wait_until_ready();
  hide_image();
  start_sleeper("stuck");
  EXPECT_TRUE(is_injected("stuck"));
  expect_paused("ImageNotPulled", "stuck");
  EXPECT_EQ(at(pod("stuck"), "/status/phase"), "Pending");
  show_image();
  expect_goes_on();
  EXPECT_TRUE(runs("stuck", seconds(120)));
}

TEST_F(Breaker, AVolumeThatCannotBeMounted) {
  create_cache("transformer", on_the_claim());
  wait_until_ready();
  fs::rename(volume(), volume() + ".gone");
  start_sleeper("stuck");
  EXPECT_TRUE(is_injected("stuck"));
  expect_paused("ClaimNotMounted", "stuck");
  EXPECT_EQ(at(pod("stuck"), "/status/phase"), "Pending");
  fs::rename(volume() + ".gone", volume());
  expect_goes_on();
  EXPECT_TRUE(runs("stuck", seconds(150)));
}

TEST_F(Breaker, ASaverThatIsKilledAgainAndAgain) {
  create_cache();
  wait_until_ready();
  start_sleeper("stuck");
  ASSERT_TRUE(runs("stuck"));
  const std::string uid = at(pod("stuck"), "/metadata/uid");
  ASSERT_TRUE(eventually(seconds(360), [&] {
    kill_saver_of(uid);
    return condition("InjectionPaused").value("status", "") == "True";
  })) << cache();
  expect_paused("ContainerFails", "stuck");
  EXPECT_EQ(at(pod("stuck"), "/status/containerStatuses/0/restartCount"), 0);
  expect_goes_on();
}

}  // namespace
}  // namespace compilecache::e2e
