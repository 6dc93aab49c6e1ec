#include "tests/e2e/saver_work.hpp"

#include <gtest/gtest.h>
#include <sys/types.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <sstream>
#include <thread>

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

namespace {

std::optional<pid_t> saver_process(const json& pod, SaverProcess which) {
  const std::string uid = at(pod, "/metadata/uid");
  const char* pattern =
      which == SaverProcess::kWork ? "^compilecache-agent save" : "^compilecache-supervise ";
  std::istringstream pids(testing::run_process({"pgrep", "-f", pattern}).out);
  for (pid_t process = 0; pids >> process;) {
    std::ifstream environment("/proc/" + std::to_string(process) + "/environ");
    const std::string all((std::istreambuf_iterator<char>(environment)), {});
    if (all.find(uid) != std::string::npos) return process;
  }
  return std::nullopt;
}

bool is_stopped(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  const std::string all((std::istreambuf_iterator<char>(file)), {});
  const size_t end = all.rfind(") ");
  return end != std::string::npos && all.compare(end + 2, 1, "T") == 0;
}

}  // namespace

bool kill_saver(const json& pod, SaverProcess which) {
  const auto process = saver_process(pod, which);
  return process && ::kill(*process, SIGKILL) == 0;
}

bool kill_saver_while_it_writes(const json& pod, const Place& place, const std::string& cache) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  const std::set<std::string> before = place.unfinished(cache);
  const auto writes = [&] {
    const std::set<std::string> now = place.unfinished(cache);
    return !std::includes(before.begin(), before.end(), now.begin(), now.end());
  };
  std::optional<pid_t> process;
  while (std::chrono::steady_clock::now() < end) {
    if (!process || ::kill(*process, 0) != 0) process = saver_process(pod, SaverProcess::kWork);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (!process || !writes()) continue;
    // Stopped it neither finishes the blob nor takes it away: what is seen then is so at its end.
    if (::kill(*process, SIGSTOP) != 0) continue;
    while (!is_stopped(*process) && ::kill(*process, 0) == 0 &&
           std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    const bool caught = writes();
    ::kill(*process, caught ? SIGKILL : SIGCONT);
    if (caught) return true;
  }
  return false;
}

}  // namespace compilecache::e2e
