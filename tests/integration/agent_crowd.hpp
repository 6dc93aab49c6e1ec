#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "agent/coordinator.hpp"
#include "agent/load/load_choice.hpp"
#include "api/agent_config.hpp"
#include "tests/integration/operator_process.hpp"

// Many pods of one key, each with an agent that asks the operator by the real code:
// choose_archive() and the operator's client. The test says how it loads and compiles.
//
//   AgentCrowd crowd(process, ns, injected_pod, 1000, "60s");
//   crowd.run([&](CrowdPod& pod, const agent::LoadChoice& choice) { ... });
//   crowd.count("none")
//
// Pods appear a hundred in a second, as a scheduler would start them. The pods are left in their
// namespace.

namespace compilecache::testing {

struct CrowdPod {
  std::string name;
  api::AgentConfig config;
  std::unique_ptr<agent::Coordinator> coordinator;
  // Its answer: "exact", "compatible", or why it starts cold; and for how long it waited.
  std::string outcome;
  std::chrono::milliseconds waited{0};
};

class AgentCrowd {
 public:
  // `pod`: as the webhook made it; `wait_for_first` in milliseconds.
  AgentCrowd(const OperatorProcess& process, std::string ns, const nlohmann::json& pod, int count,
             int64_t wait_for_first);
  ~AgentCrowd();
  AgentCrowd(const AgentCrowd&) = delete;
  AgentCrowd& operator=(const AgentCrowd&) = delete;

  // Every pod asks for its archive, and does then what `go_on` says, in a thread of its own.
  // Returns when all are done.
  void run(const std::function<void(CrowdPod& pod, const agent::LoadChoice& choice)>& go_on);

  [[nodiscard]] std::vector<CrowdPod>& pods() { return pods_; }
  // For the pods' files; removed at the end.
  [[nodiscard]] const std::string& folder() const { return folder_; }
  // "exact 99, no_archive 1"
  [[nodiscard]] std::map<std::string, int> outcomes() const;
  [[nodiscard]] std::chrono::milliseconds longest_wait() const;
  // As if it were evicted and gone.
  void remove(const CrowdPod& pod) const;

 private:
  void create(CrowdPod& pod, nlohmann::json object) const;

  const std::string ns_, folder_;
  std::vector<CrowdPod> pods_;
};

// A whole save: the answer's status word, "committed" when it was.
std::string crowd_save(CrowdPod& pod, const std::string& manifest, double compile_seconds);

}  // namespace compilecache::testing
