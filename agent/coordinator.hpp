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

// Who decides which archive is whose, and who may save now: the operator, or, where there is none
// (by hand), the index on the volume.

namespace compilecache::agent {

// How long a call may take with all its retries.
using Patience = std::chrono::milliseconds;

// Thread-safe: a saver renews its lock from a thread of its own. Errors: kUnavailable and kTimeout,
// nobody answered; kConflict, kNotFound, kExpired, kForbidden: this save is no longer ours; others
// as the operator says.
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
};

// Sleeps; false when it was woken because the process has to end.
using Sleep = std::function<bool(std::chrono::milliseconds)>;

// Talks to the operator's agent API over HTTPS. Repeats what met nobody (no connection, 429, 502,
// 503, 504), with growing pauses, until the patience is used up: this is how agents live through a
// change of leader. The token is read from its file for each call, since the kubelet renews it. The
// clock must outlive it, as with the others.
std::unique_ptr<Coordinator> make_operator_client(const api::AgentConfig& config,
                                                  const Clock& clock, Random random, Sleep sleep);

// Decides by the store's index alone. There is no lock: for one saver at a time, by hand.
std::unique_ptr<Coordinator> make_index_coordinator(const api::AgentConfig& config,
                                                    store::Store& store, std::string node,
                                                    const Clock& clock);

// The first of the two where the configuration has an operator's address.
std::unique_ptr<Coordinator> make_coordinator(const api::AgentConfig& config, store::Store& store,
                                              std::string node, const Clock& clock, Random random,
                                              Sleep sleep);

}  // namespace compilecache::agent
