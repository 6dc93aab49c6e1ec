#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "agent/coordinator.hpp"
#include "agent/status_file.hpp"
#include "api/agent_config.hpp"
#include "base/clock.hpp"
#include "store/store.hpp"

// Which archive is this pod's: the operator's answer, else the store's index.

namespace compilecache::agent {

struct LoadChoice {
  // What is known so far: archive, manifest_digest, match, source, or why there is none.
  LoadStatus status;
  bool load = false;
  bool operator_answered = false;
  std::chrono::milliseconds budget{};
};

// `alive` is called before each step that can take long. Waits for the first pod where the operator
// says so, no longer than the configuration allows.
LoadChoice choose_archive(const api::AgentConfig& config, store::Store& store,
                          const std::string& node, Coordinator& coordinator, const Clock& clock,
                          const Sleep& sleep, const std::function<void()>& alive);

}  // namespace compilecache::agent
