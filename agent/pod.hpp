#pragma once

#include <string>

#include "agent/control_directory.hpp"
#include "api/agent_api.hpp"
#include "api/agent_config.hpp"
#include "base/error.hpp"

// What a program of ours is told about itself.

namespace compilecache::agent {

// From `file`, or, where that is empty, from the variable COMPILECACHE_CONFIG.
Result<api::AgentConfig> read_agent_config(const std::string& file);

// COMPILECACHE_NODE_NAME; by hand the machine's name.
std::string node_name();

// Of the node's kernel, another one after each start; empty where it cannot be read.
std::string boot_id();

// The same message whether the loader or, later, the saver sends it.
api::LoadedReport loaded_report(const std::string& cache, const LoadStatus& status);

}  // namespace compilecache::agent
