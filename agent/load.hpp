#pragma once

#include "agent/termination.hpp"
#include "api/agent_config.hpp"

namespace compilecache::agent {

// The loader, an init container: puts the pod's archive into its cache directories. Whatever
// happens the pod must start, so it returns in every case (or ends the process with 0 from another
// thread when this one hangs), and what is not loaded whole is not there at all. The outcome is in
// the control directory (status_file.hpp), in the log and with the operator.
void run_load(const api::AgentConfig& config, Termination& termination);

}  // namespace compilecache::agent
