#include <sys/types.h>

#include <csignal>
#include <fstream>
#include <sstream>

#include "tests/e2e/sandbox.hpp"

// A saver that crashes or has too little memory is nothing that the kubelet, the pod's Service or a
// controller hears of: its container goes on, and the pod stays ready.

namespace compilecache::e2e {
namespace {

constexpr char kSaver[] = "compilecache-save";

class SaverFails : public Sandbox {
 protected:
  // Makes one entry of the cache and sleeps. With a limit, so that ours get one too.
  void start_app(const std::string& name, const std::string& entry) {
    TorchPod how{name};
    how.image = "docker.io/library/debian:bookworm-slim";
    json pod = manifest(how);
    json& app = pod["spec"]["containers"][0];
    app["command"] = {"sh", "-c",
                      "d=$TORCHINDUCTOR_CACHE_DIR/fxgraph/ab/KEY; mkdir -p $d; " + entry +
                          " > $d/file; exec sleep 3600"};
    app["resources"]["limits"] = {{"cpu", "50m"}, {"memory", "32Mi"}};
    ASSERT_EQ(testing::apply(pod), "");
  }
  [[nodiscard]] bool is_ready(const std::string& name) const {
    for (const json& condition : at(pod(name), "/status/conditions")) {
      if (condition["type"] == "Ready") return condition["status"] == "True";
    }
    return false;
  }
  // The kubelet's word on the saver's container.
  [[nodiscard]] json saver_status(const std::string& name) const {
    for (const json& status : at(pod(name), "/status/initContainerStatuses")) {
      if (status["name"] == kSaver) return status;
    }
    return json::object();
  }
  void expect_undisturbed(const std::string& name) const {
    EXPECT_TRUE(is_ready(name)) << at(pod(name), "/status");
    const json status = saver_status(name);
    EXPECT_EQ(status.value("restartCount", -1), 0) << status;
    EXPECT_TRUE(at(status, "/state/running").is_object()) << status;
    EXPECT_EQ(at(pod(name), "/status/containerStatuses/0/restartCount"), 0);
  }
  // SIGKILL to the process on the node that does the saver's work; whether there was one.
  [[nodiscard]] bool kill_work(const std::string& name) const {
    const std::string uid = at(pod(name), "/metadata/uid");
    std::istringstream pids(testing::run_process({"pgrep", "-f", "^compilecache-agent save"}).out);
    for (pid_t process = 0; pids >> process;) {
      std::ifstream environment("/proc/" + std::to_string(process) + "/environ");
      const std::string all((std::istreambuf_iterator<char>(environment)), {});
      if (all.find(uid) != std::string::npos) return ::kill(process, SIGKILL) == 0;
    }
    return false;
  }
};

TEST_F(SaverFails, KilledTenTimesItDisturbsNobodyAndSavesInTheEnd) {
  create_cache("transformer", {{"save", {{"quietPeriod", "10s"}}}});
  wait_until_ready();
  start_app("app", "echo entry");
  ASSERT_TRUE(eventually(seconds(120), [&] { return is_ready("app"); }))
      << at(pod("app"), "/status");
  for (int kill = 0; kill < 10; ++kill) {
    ASSERT_TRUE(eventually(seconds(120), [&] { return kill_work("app"); })) << logs("app", kSaver);
    expect_undisturbed("app");
  }
  const json saved = wait_for_save(1, "", seconds(180));
  EXPECT_EQ(archived_files(saved).size(), 1U);
  expect_undisturbed("app");
}

TEST_F(SaverFails, WithTooLittleMemoryItSaysSoAndDisturbsNobody) {
  const json range{
      {"apiVersion", "v1"},
      {"kind", "LimitRange"},
      {"metadata", {{"name", "small"}, {"namespace", ns()}}},
      {"spec", {{"limits", {{{"type", "Container"}, {"max", {{"memory", "32Mi"}}}}}}}}};
  create_cache();
  wait_until_ready();
  ASSERT_EQ(testing::apply(range), "");
  start_app("app", "head -c 48000000 /dev/urandom");
  const auto told = [&] {
    const std::string log = logs("app", kSaver);
    return log.find("memory that the container's limit leaves") != std::string::npos ||
           log.find("started again") != std::string::npos;
  };
  EXPECT_TRUE(eventually(seconds(180), told)) << logs("app", kSaver);
  EXPECT_EQ(at(saver_status("app"), "/state/running").is_object(), true);
  expect_undisturbed("app");
  EXPECT_TRUE(archives().empty() || at(archives().front(), "/status/head").is_null());
}

}  // namespace
}  // namespace compilecache::e2e
