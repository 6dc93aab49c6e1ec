#pragma once

#include <atomic>
#include <functional>
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
#include "operator/registry/own_repositories.hpp"
#include "operator/registry/registry_usage.hpp"

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
    const PodLedger& pods;
    SaveCoordinator& saves;
    const SaveContexts& contexts;
    const SweepWishes& wishes;
    CacheStats& stats;
    LoadTraffic& traffic;
    Metrics& metrics;
    kube::EventSink& events;
    const Clock& clock;
    // That of the installation's own registry; nullptr: there is none.
    RegistryUsage* usage = nullptr;
    const OwnRepositories* repositories = nullptr;
    std::function<void(bool full)> registry_room = {};  // see AgentApiHooks
  };

  explicit SaveService(Parts parts) : parts_(parts) {}

  Result<api::SaveAnswer> request(const Caller& caller, const api::SaveRequest& request);
  Status renew(const Caller& caller, const std::string& id, const api::RenewRequest& request);
  Result<api::CommitAnswer> commit(const Caller& caller, const std::string& id,
                                   const api::CommitRequest& request);
  Status release(const Caller& caller, const std::string& id);

 private:
  [[nodiscard]] Result<api::ArchiveKey> saved_key(const Caller& caller,
                                                  const std::string& cpu) const;
  [[nodiscard]] std::string doubt_head(const Caller& caller, const api::ArchiveKey& key,
                                       const api::SaveRequest& request) const;
  [[nodiscard]] Result<std::optional<store::SavedContent>> find_save(
      const Caller& caller, const api::CommitRequest& request) const;
  [[nodiscard]] uint64_t added_bytes(const Caller& caller, const api::ArchiveKey& key,
                                     const store::SavedContent& content) const;
  void note_saved(const Caller& caller, uint64_t bytes) const;
  Error not_committed(const Caller& caller, const std::string& id, const Error& error) const;
  void tell_commit(const Caller& caller, const std::string& id, const api::ArchiveKey& key,
                   const api::CommitRequest& request, const api::CommitAnswer& answer);
  std::optional<double> seconds_since_grant(const std::string& id);

  const Parts parts_;
  mutable std::atomic<int> looking_{0};  // into the installation's registry
  Mutex mutex_;
  std::map<std::string, Monotonic> granted_ GUARDED_BY(mutex_);  // save's id: when
};

}  // namespace compilecache::controller
