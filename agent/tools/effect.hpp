#pragma once

#include "api/agent_config.hpp"
#include "base/clock.hpp"
#include "store/store.hpp"

// Whether what was loaded was of use, for people: what the saver tells the operator, printed.

namespace compilecache::agent {

// Judges the cache directories as they are now against what the loader noted in the control
// directory; text or JSON on standard output. Returns the process's exit code: 1 when a directory
// cannot be read.
int run_effect(const api::AgentConfig& config, const store::Store& store, bool json,
               const Clock& clock);

}  // namespace compilecache::agent
