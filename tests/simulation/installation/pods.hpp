#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "agent/process.hpp"
#include "api/agent_config.hpp"
#include "store/store.hpp"
#include "tests/simulation/cluster/api_server.hpp"
#include "tests/simulation/invariants/invariant.hpp"
#include "tests/simulation/os/scheduler.hpp"

// Pods and sweep Jobs as a kubelet runs them: a process each in which the agent's own code runs, on
// real files below a folder of the run, with the configuration that the webhook has injected.

namespace compilecache::simulation {

// ClusterIPs: of the Service of the leader, and of that of all replicas.
constexpr char kAgentAddress[] = "10.0.0.8";
constexpr char kLoadAddress[] = "10.0.0.10";

// What a fault kills.
enum class Victim {
  kLoader,       // the container: the kubelet starts it again
  kLoaderChild,  // the loader's own subprocess, as the OOM killer does
  kSaver,
  kSweep,  // a sweep Job's pod
  kPod,    // all of it, and it is deleted
};

struct PodOrder {
  std::string ns;
  std::string cache;  // the CompileCache
  std::string image;
  std::string node;
  int64_t lives_ns = 0;  // after it has saved
};

struct PodCounts {
  int64_t pods = 0, plain = 0, exact = 0, compatible = 0, cold = 0, failed = 0, killed = 0;
  int64_t saves = 0, sweeps = 0, failed_sweeps = 0;
};

class Pods {
 public:
  struct Parts {
    ApiServer& api;
    std::string folder;  // for files; empty, on a fast disk
    std::function<void(const CreatedPod& pod)> pod_created;
    std::function<void(const std::string& pod)> loader_ended;
    std::function<void(const EndedLoad&)> load_ended;
    std::function<void(const EndedSave&)> save_ended;
  };
  explicit Pods(Parts parts);

  // Runs a pod from its creation to its deletion; returns then.
  void run(const PodOrder& order);
  // The next victim of that kind to start is killed so long after its start.
  void arm(Victim victim, int64_t after) { armed_[victim] = after; }
  // Starts Jobs that are new; each ends by itself.
  void start_new_jobs();
  [[nodiscard]] const PodCounts& counts() const { return counts_; }

 private:
  struct Pod;

  // As the API server returns it.
  [[nodiscard]] nlohmann::json create(const PodOrder& order);
  // False: the pod was not injected.
  bool configure(Pod& pod, const nlohmann::json& object, const PodOrder& order) const;
  void live(Pod& pod, const PodOrder& order);
  // False: killed.
  bool run_process(const Pod& pod, Victim victim, const std::function<void()>& body);
  bool is_gone(const Pod& pod) const;
  std::optional<int64_t> take_arm(Victim victim);
  void load(Pod& pod, const PodOrder& order);
  void judge_load(Pod& pod);
  // Its application runs, as the kubelet reports.
  void runs(const Pod& pod);
  void save(Pod& pod, const PodOrder& order);
  void run_job(const nlohmann::json& job);
  bool sweep(const nlohmann::json& job, const std::string& pod, const std::string& uid);
  [[nodiscard]] agent::Process process();
  [[nodiscard]] std::unique_ptr<store::Store> open(const api::AgentConfig& config);
  [[nodiscard]] std::string make_home(const std::string& ns, const std::string& pod,
                                      const std::string& uid, const std::string& node) const;

  const Parts parts_;
  const Random random_;
  agent::Termination& termination_;  // never requested: pods end by being killed
  PodCounts counts_;
  std::map<Victim, int64_t> armed_;
  std::map<std::string, bool> jobs_;  // by uid: those that were started
};

}  // namespace compilecache::simulation
