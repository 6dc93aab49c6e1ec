#pragma once

#include "agent/coordinator.hpp"
#include "api/agent_config.hpp"
#include "base/clock.hpp"
#include "store/store.hpp"

namespace compilecache::agent {

// Sweeps the store once, in a Job. It prepares the store, tries the operations that saves need, and
// removes condemned blobs and leftovers of crashed saves. It checks suspect archives, copies those
// of `source` (null: nothing is copied), rewrites index.json from the operator's answer, and
// reports the inventory. Interrupted anywhere it harms nothing. True when all of it was done and
// reported; false too for a store without Upkeep, which is not swept from here.
bool run_sweep(const api::AgentConfig& config, store::Store& store, store::Store* source,
               Coordinator& coordinator, const Clock& clock);

}  // namespace compilecache::agent
