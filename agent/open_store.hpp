#pragma once

#include <memory>

#include "agent/coordinator.hpp"
#include "api/agent_config.hpp"
#include "base/clock.hpp"
#include "base/random.hpp"
#include "store/store.hpp"

namespace compilecache::agent {

// The store that the configuration names: a folder of the volume that is mounted, a user's registry
// with what is mounted for it, or the installation's own registry with tokens of the operator, for
// which calls are retried with `sleep`. Nothing is touched or connected to yet. The clock must
// outlive the store.
std::unique_ptr<store::Store> open_store(const api::AgentConfig& config, const Clock& clock,
                                         const Random& random, Sleep sleep);

// The store that a sweep Job copies from, or null where it copies from nowhere.
std::unique_ptr<store::Store> open_source(const api::AgentConfig& config, const Clock& clock,
                                          const Random& random, Sleep sleep);

}  // namespace compilecache::agent
