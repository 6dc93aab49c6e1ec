#pragma once

#include <string>
#include <vector>

#include "api/agent_config.hpp"

// The variables of our containers, in an application's pod and in a Job's. Pure.

namespace compilecache::podspec {

// The whole `env` of an agent's container as JSON: its configuration as one plain value; the pod's
// name, uid, namespace and node from the downward API; and `more`, whole variables as JSON.
std::string agent_environment(const api::AgentConfig& config,
                              const std::vector<std::string>& more = {});

}  // namespace compilecache::podspec
