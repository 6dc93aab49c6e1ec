#pragma once

#include "agent/process.hpp"
#include "api/agent_config.hpp"
#include "store/store.hpp"

namespace compilecache::agent {

// The saver, a native sidecar. It watches the cache directories and saves new files when they have
// been still for the quiet period, when the app asks, and at SIGTERM. It reports the effect of the
// load. Returns only after SIGTERM, whatever happens: a sidecar that ends early holds the app in
// PodInitializing or takes it out of its Service. After a kill and a restart it continues
// from the control directory.
void run_save(const api::AgentConfig& config, store::Store& store, const Process& process);

// Makes one save now, without waiting for anything; for use by hand. True when it was saved or
// nothing was new.
bool run_save_once(const api::AgentConfig& config, store::Store& store, const Process& process);

// Waits for SIGTERM: for a saver whose configuration cannot be used.
void wait_for_the_end(const Termination& termination);

}  // namespace compilecache::agent
