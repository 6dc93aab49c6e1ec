#pragma once

#include <map>
#include <optional>
#include <string>

#include "api/agent_api.hpp"
#include "base/clock.hpp"
#include "base/mutex.hpp"
#include "kube/events.hpp"
#include "operator/agents/caller.hpp"
#include "operator/agents/load_traffic.hpp"
#include "operator/agents/save_contexts.hpp"
#include "operator/agents/sweep_wishes.hpp"
#include "operator/archives/save_coordinator.hpp"
#include "operator/caches/cache_stats.hpp"
#include "operator/metrics/metrics.hpp"

// Saves: may this pod save now, is it still at it, what it has written.
//
//   SaveService saves(parts);
//   Result<api::SaveAnswer> answer = saves.request(caller, {.cache = "transformer"});
//
// The rules are operator/archives/save_coordinator.hpp's. Thread-safe; calls block on the API
// server.

namespace compilecache::controller {

class SaveService {
 public:
  struct Parts {
    const ClusterView& view;
    SaveCoordinator& saves;
    const SaveContexts& contexts;
    const SweepWishes& wishes;
    CacheStats& stats;
    LoadTraffic& traffic;
    Metrics& metrics;
    kube::EventSink& events;
    const Clock& clock;
  };

  explicit SaveService(Parts parts) : parts_(parts) {}

  Result<api::SaveAnswer> request(const Caller& caller, const api::SaveRequest& request);
  Status renew(const Caller& caller, const std::string& id, const api::RenewRequest& request);
  Result<api::CommitAnswer> commit(const Caller& caller, const std::string& id,
                                   const api::CommitRequest& request);
  Status release(const Caller& caller, const std::string& id);

 private:
  [[nodiscard]] std::string doubt_head(const Caller& caller, const api::ArchiveKey& key,
                                       const api::SaveRequest& request) const;
  Error not_committed(const Caller& caller, const std::string& id, const Error& error) const;
  void tell_commit(const Caller& caller, const std::string& id, const api::ArchiveKey& key,
                   const api::CommitRequest& request, const api::CommitAnswer& answer);
  std::optional<double> seconds_since_grant(const std::string& id);

  const Parts parts_;
  Mutex mutex_;
  std::map<std::string, Monotonic> granted_ GUARDED_BY(mutex_);  // save's id: when
};

}  // namespace compilecache::controller
