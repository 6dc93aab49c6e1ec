#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "agent/control_directory.hpp"
#include "agent/coordinator.hpp"
#include "api/agent_config.hpp"
#include "base/clock.hpp"
#include "store/store.hpp"

// Finds the archive for this pod: asks the operator, else reads the store's index.

namespace compilecache::agent {

struct LoadChoice {
  // The result so far: archive, manifest_digest, match and source, or the reason for a cold start.
  LoadStatus status;
  bool load = false;
  bool operator_answered = false;
  std::chrono::milliseconds budget{};
  std::vector<std::string> rank_directories;  // the pod's own (api::LoadAnswer)
};

// `alive` is called before each step that can take long. Where the operator says so it waits for
// the first pod, but no longer than the configuration allows.
LoadChoice choose_archive(const api::AgentConfig& config, store::Store& store,
                          const std::string& node, Coordinator& coordinator, const Clock& clock,
                          const Sleep& sleep, const std::function<void()>& alive);

}  // namespace compilecache::agent
