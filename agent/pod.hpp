#pragma once

#include <string>

#include "agent/control_directory.hpp"
#include "api/agent_api.hpp"
#include "api/agent_config.hpp"
#include "base/error.hpp"

// An agent's knowledge of its pod.

namespace compilecache::agent {

// Reads the configuration from `file`, or, where that is empty, from the variable
// COMPILECACHE_CONFIG.
Result<api::AgentConfig> read_agent_config(const std::string& file);

// The node's name, from COMPILECACHE_NODE_NAME; for a program started by hand the machine's name.
std::string node_name();

// The boot id of the node's kernel, which is new after each boot; empty where it cannot be read.
std::string boot_id();

// The report of a load. The loader sends it, or later the saver.
api::LoadedReport loaded_report(const std::string& cache, const LoadStatus& status);

}  // namespace compilecache::agent
