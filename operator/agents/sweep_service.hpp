#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "api/agent_api.hpp"
#include "base/clock.hpp"
#include "base/mutex.hpp"
#include "operator/agents/caller.hpp"
#include "operator/agents/sweep_wishes.hpp"
#include "operator/archives/archive_client.hpp"
#include "operator/archives/archive_registry.hpp"
#include "operator/archives/save_coordinator.hpp"
#include "operator/archives/sweep_guard.hpp"
#include "operator/caches/cache_stats.hpp"
#include "operator/metrics/metrics.hpp"
#include "operator/registry/registry_usage.hpp"
#include "operator/settings/settings.hpp"

// What sweep Jobs ask and tell: what is live, what may be deleted, what they found. What follows
// from it is decided in operator/storage/sweep_ledger.hpp.
//
//   SweepService sweeps(parts);
//   Result<api::SweepAnswer> answer = sweeps.sweep(caller, {.phase = api::SweepPhase::kBegin});
//
// Thread-safe; calls block on the API server.

namespace compilecache::controller {

class SweepService {
 public:
  struct Parts {
    const ClusterView& view;
    SaveCoordinator& saves;
    CacheLocks& locks;
    SweepGuard& guard;
    ArchiveClient& archives;
    ArchiveRegistry& registry;
    const SweepWishes& wishes;
    CacheStats& stats;
    Metrics& metrics;
    const Settings& settings;
    const RegistryUsage* usage;  // of the installation's own registry; nullptr: it has none
    const Clock& clock;
    // A Job said that it begins, or how it ended. `pod` is the Job's; `owner` in it names the Job.
    std::function<void(const PodView& pod, const api::SweepRequest& request)> reported;
  };

  explicit SweepService(Parts parts);

  Result<api::SweepAnswer> sweep(const Caller& caller, const api::SweepRequest& request);

 private:
  // Saves that hold a lock and called lately; leftovers of dead ones are taken back.
  Result<std::vector<SaveInFlight>> in_flight(
      const Caller& caller, const std::vector<api::CompileCacheArchive>& archives);
  Status adopt(const Caller& caller, const api::SweepRequest& request);
  Result<api::SweepAnswer> take_copies(const Caller& caller, const api::SweepRequest& request);
  Result<std::set<std::string>> not_to_be_copied(const Caller& caller) const;
  [[nodiscard]] Status has_room(const Caller& caller) const;
  void note_copied(const Caller& caller, const api::SweepRequest& last) const;
  Result<int64_t> take_all(const Caller& caller, const std::vector<api::FoundArchive>& found,
                           const std::set<std::string>& unwanted);
  Status take_in(const api::CompileCacheArchive& archive, const std::set<std::string>& unwanted);
  void note_heads(const Caller& caller, const std::vector<api::CompileCacheArchive>& archives);
  Status miss_blobs(const Caller& caller, const std::vector<api::CompileCacheArchive>& archives,
                    const api::Inventory& page);
  Result<api::SweepAnswer> sweep_begins(const Caller& caller);
  [[nodiscard]] bool was_told_to_check(const Caller& caller,
                                       const std::vector<api::CompileCacheArchive>& archives,
                                       const std::string& manifest);
  Status take_verdicts(const Caller& caller, const api::SweepRequest& request,
                       std::vector<api::CompileCacheArchive>& archives);
  // The Job's checks and, where it knows it, its list; and the archives and saves since.
  struct Heard {
    std::vector<api::CompileCacheArchive> archives;
    std::vector<SaveInFlight> saves;
  };
  Result<Heard> hear(const Caller& caller, const api::SweepRequest& request);
  void condemn_unneeded(const Caller& caller, const api::Inventory& page, const Heard& heard,
                        std::set<std::string> handed);
  Status take_inventory(const Caller& caller, const api::SweepRequest& request);
  Status sweep_ends(const Caller& caller, const api::SweepRequest& request);
  void log_end(const Caller& caller, const api::SweepRequest& request) const;

  const Parts parts_;
  const Monotonic leading_since_;
  Mutex mutex_;
  // The archives that the last Job is to check, by CompileCache.
  struct Told {
    std::string job;  // its uid
    std::set<std::string> check;
  };
  std::map<std::string, Told> told_ GUARDED_BY(mutex_);
  // Manifests that a sweep Job must find, by CompileCache: heads when it began.
  std::map<std::string, std::set<std::string>> heads_at_begin_ GUARDED_BY(mutex_);
};

}  // namespace compilecache::controller
