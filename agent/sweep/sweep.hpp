#pragma once

#include "agent/coordinator.hpp"
#include "api/agent_config.hpp"
#include "base/clock.hpp"
#include "store/store.hpp"

namespace compilecache::agent {

// One sweep of the store, in a Job: makes the store whole, tries what saving relies on, removes
// what the operator has condemned and what crashed saves left, checks suspect archives, rewrites
// index.json from the truth, and tells the operator what is there now. Interrupted anywhere it
// harms nothing. True when all of it was done and told; false too for a store without Upkeep, which
// is not swept from here.
bool run_sweep(const api::AgentConfig& config, store::Store& store, Coordinator& coordinator,
               const Clock& clock);

}  // namespace compilecache::agent
