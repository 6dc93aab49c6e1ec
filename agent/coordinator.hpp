#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "api/agent_api.hpp"
#include "api/agent_config.hpp"
#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/random.hpp"
#include "store/store.hpp"

// Decides about a pod's archive and the right to save: the operator does, or, where there is
// none (by hand), the index on the volume.

namespace compilecache::agent {

// How long a call may take with all its retries.
using Patience = std::chrono::milliseconds;

// Thread-safe: a saver renews its lock from a thread of its own. Errors: kUnavailable and kTimeout
// mean that nobody answered; kConflict, kNotFound, kExpired and kForbidden that this save has lost
// its lock; others are the operator's.
class Coordinator {
 public:
  virtual ~Coordinator() = default;
  virtual Result<api::LoadAnswer> load(const api::LoadRequest& request, Patience patience) = 0;
  virtual Status loaded(const api::LoadedReport& report, Patience patience) = 0;
  virtual Result<api::SaveAnswer> begin_save(const api::SaveRequest& request,
                                             Patience patience) = 0;
  virtual Status renew_save(const std::string& id, const api::RenewRequest& request,
                            Patience patience) = 0;
  virtual Result<api::CommitAnswer> commit_save(const std::string& id,
                                                const api::CommitRequest& request,
                                                Patience patience) = 0;
  virtual Status release_save(const std::string& id, Patience patience) = 0;
  virtual Status effect(const api::EffectReport& report, Patience patience) = 0;
  virtual Result<api::SweepAnswer> sweep(const api::SweepRequest& request, Patience patience) = 0;
  // For the installation's own registry. kNotFound: there is none.
  virtual Result<api::RegistryToken> registry_token(const api::RegistryTokenRequest& request,
                                                    Patience patience) = 0;
};

// Sleeps; returns false when woken because the process has to end.
using Sleep = std::function<bool(std::chrono::milliseconds)>;

// Calls the operator's agent API over HTTPS. Retries calls that no leader answered (no connection,
// 429, 502, 503, 504), with growing pauses, until the patience is used up: so agents survive a
// change of leader. Where the configuration has a load_address, loads and tokens to read are asked
// there too while the leader does not answer (agent/load_race.hpp). A leader that did not answer is
// waited for once: the next call asks both at once, and the report of a load is tried for 300 ms.
// The token is read from its file for each call, since the kubelet renews it. The clock must
// outlive every coordinator.
std::unique_ptr<Coordinator> make_operator_client(const api::AgentConfig& config,
                                                  const Clock& clock, Random random, Sleep sleep);

// Decides by the store's index alone. It has no lock, so it is for one saver at a time, started by
// hand.
std::unique_ptr<Coordinator> make_index_coordinator(const api::AgentConfig& config,
                                                    store::Store& store, std::string node,
                                                    const Clock& clock);

// The first of the two where the configuration has an operator's address.
std::unique_ptr<Coordinator> make_coordinator(const api::AgentConfig& config, store::Store& store,
                                              std::string node, const Clock& clock, Random random,
                                              Sleep sleep);

}  // namespace compilecache::agent
