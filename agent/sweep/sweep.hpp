#pragma once

#include "agent/coordinator.hpp"
#include "api/agent_config.hpp"
#include "base/clock.hpp"

namespace compilecache::agent {

// One sweep of the store, in a Job: makes the store whole, tries what saving relies on, removes
// what the operator has condemned and what crashed saves left, checks suspect archives, rewrites
// index.json from the truth, and tells the operator what is there now. Interrupted anywhere it
// harms nothing. True when all of it was done and told.
bool run_sweep(const api::AgentConfig& config, Coordinator& coordinator, const Clock& clock);

}  // namespace compilecache::agent
