#include "tests/e2e/saver_work.hpp"

#include <gtest/gtest.h>
#include <sys/types.h>

#include <csignal>
#include <fstream>
#include <iterator>
#include <sstream>

#include "tests/support/kubectl.hpp"
#include "tests/support/process.hpp"

namespace compilecache::e2e {

using nlohmann::json;
using testing::at;

void write_one_entry(json& pod_spec, const std::string& entry) {
  json& app = pod_spec["containers"][0];
  app["command"] = {"sh", "-c",
                    "d=$TORCHINDUCTOR_CACHE_DIR/fxgraph/ab/KEY; mkdir -p $d; " + entry +
                        " > $d/file; exec sleep 3600"};
  app["resources"]["limits"] = {{"cpu", "50m"}, {"memory", "32Mi"}};
}

bool is_ready(const json& pod) {
  for (const json& condition : at(pod, "/status/conditions")) {
    if (condition["type"] == "Ready") return condition["status"] == "True";
  }
  return false;
}

json saver_status(const json& pod) {
  for (const json& status : at(pod, "/status/initContainerStatuses")) {
    if (status["name"] == kSaverContainer) return status;
  }
  return json::object();
}

void expect_undisturbed(const json& pod) {
  EXPECT_TRUE(is_ready(pod)) << at(pod, "/status");
  const json status = saver_status(pod);
  EXPECT_EQ(status.value("restartCount", -1), 0) << status;
  EXPECT_TRUE(at(status, "/state/running").is_object()) << status;
  EXPECT_EQ(at(pod, "/status/containerStatuses/0/restartCount"), 0);
}

bool kill_saver(const json& pod, SaverProcess which) {
  const std::string uid = at(pod, "/metadata/uid");
  const char* pattern =
      which == SaverProcess::kWork ? "^compilecache-agent save" : "^compilecache-supervise ";
  std::istringstream pids(testing::run_process({"pgrep", "-f", pattern}).out);
  for (pid_t process = 0; pids >> process;) {
    std::ifstream environment("/proc/" + std::to_string(process) + "/environ");
    const std::string all((std::istreambuf_iterator<char>(environment)), {});
    if (all.find(uid) != std::string::npos) return ::kill(process, SIGKILL) == 0;
  }
  return false;
}

}  // namespace compilecache::e2e
