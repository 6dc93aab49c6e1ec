#pragma once

#include <string>

#include "api/agent_config.hpp"

// The variables of our containers, in an application's pod and in a Job's. Pure.

namespace compilecache::podspec {

// JSON of the agents' whole `env`: their configuration as one plain value; who the pod is, and
// where, from the downward API.
std::string agent_environment(const api::AgentConfig& config);

}  // namespace compilecache::podspec
