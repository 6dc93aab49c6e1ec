#pragma once

#include "agent/process.hpp"
#include "api/agent_config.hpp"
#include "store/store.hpp"

namespace compilecache::agent {

// The saver, a native sidecar: watches the cache directories and saves what is new when they have
// been still for the quiet period, when the app asks, and at SIGTERM; says what the loaded archive
// was worth. Returns only after SIGTERM, whatever happens: a sidecar that ends early holds the app
// in PodInitializing or takes it out of its Service. Killed and started again it goes on from the
// control directory.
void run_save(const api::AgentConfig& config, store::Store& store, const Process& process);

// By hand: one save now, without waiting for anything. True when it was saved or nothing was new.
bool run_save_once(const api::AgentConfig& config, store::Store& store, const Process& process);

// For a saver whose configuration cannot be used: waits for SIGTERM.
void wait_for_the_end(const Termination& termination);

}  // namespace compilecache::agent
