#pragma once

#include "api/agent_config.hpp"
#include "base/clock.hpp"
#include "store/store.hpp"

// Prints the effect of the load, as the saver reports it to the operator.

namespace compilecache::agent {

// Compares the cache directories as they are now with what the loader noted in the control
// directory; prints text or JSON to standard output. Returns the exit status: 1 when a directory
// cannot be read.
int run_effect(const api::AgentConfig& config, const store::Store& store, bool json,
               const Clock& clock);

}  // namespace compilecache::agent
