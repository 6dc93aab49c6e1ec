#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "api/compile_cache.hpp"
#include "base/clock.hpp"
#include "base/mutex.hpp"
#include "kube/client.hpp"
#include "kube/events.hpp"
#include "kube/worker.hpp"
#include "operator/archives/archive_registry.hpp"
#include "operator/archives/crash_watch.hpp"
#include "operator/breaker/breaker_keeper.hpp"
#include "operator/caches/cache_stats.hpp"
#include "operator/caches/heard_pods.hpp"
#include "operator/caches/invalid_caches.hpp"
#include "operator/caches/status_decision.hpp"
#include "operator/caches/status_writer.hpp"
#include "operator/cluster/cluster_view.hpp"
#include "operator/metrics/metrics.hpp"
#include "operator/registry/registry_usage.hpp"
#include "operator/settings/settings.hpp"
#include "operator/storage/storage_check.hpp"
#include "operator/storage/sweeper.hpp"

// Reconciles one CompileCache: checks its claim, has its store prepared and swept, deletes stale
// archives, and writes its status. Runs on the leader.
//
//   kube::Workers workers("compilecaches", queue, [&](const std::string& key) {
//     return controller.reconcile(key);                          // "namespace/name"
//   });
//
// It is level-triggered: everything is derived from the stores, so that a lost or doubled call
// harms nothing. The status is made in three steps: gather() reads, decide_status() is pure
// (status_decision.hpp), and act() alone asks for probes, evicts, writes and tells Events.
// reconcile() may run in several threads for different keys.

namespace compilecache::controller {

struct ControllerParts {
  kube::Client client;
  const Settings& settings;
  const ClusterStores& stores;
  const ClusterView& view;
  const kube::Store<ClaimView>& claims;
  InvalidCaches& invalid;
  CacheStats& stats;
  CrashWatch& crashes;
  ArchiveRegistry& registry;
  Sweeper& sweeper;
  BreakerKeeper& breaker;
  HeardPods& heard;
  StatusWriter& writer;
  kube::EventSink& events;
  Metrics& metrics;
  std::function<bool()> is_leader;
  // Whether somebody is saving that archive now.
  std::function<bool(const std::string& ns, const std::string& archive)> is_saving;
  // Which devices the pod's claims were given, by the API server where it is not known yet.
  std::function<Result<api::DeviceFacts>(const PodView& pod, const std::string& node)> devices;
  // For the installation's own registry, if there is one: how much is there, and its fault for the
  // archives in a repository; empty: none.
  const RegistryUsage* usage = nullptr;
  std::function<OwnRegistryTrouble(const std::string& repository)> registry_trouble = {};
};

class CompileCacheController {
 public:
  CompileCacheController(ControllerParts parts, const Clock& clock);

  // Call once, when this replica has become the leader, before agents are answered: the counters
  // are taken from the API server. Blocks; may be called again after an error.
  Status take_over();

  Result<kube::Reconciled> reconcile(const std::string& key);

 private:
  Duration pause_after_conflict(const std::string& key);
  Result<kube::Reconciled> reconcile_invalid(const InvalidCache& invalid);
  Result<kube::Reconciled> reconcile_valid(const api::CompileCache& cache);
  void on_first_seen(const api::CompileCache& cache);
  void forget(const std::string& key);
  Result<StorageFacts> storage_facts(const api::CompileCache& cache);
  Result<VolumeView> volume(const ClaimView& claim);
  // Deletes what is stale; when to look again.
  Status judge_crashes(const api::CompileCache& cache);
  void keep_crashing(const api::CompileCache& cache, const std::string& archive,
                     const std::set<std::string>& accused);
  void tell_crashes(const api::CompileCache& cache, const std::string& archive, const Blame& blame);
  void notice_deleted(const api::CompileCache& cache);
  Duration collect(const api::CompileCache& cache);
  int64_t remove_orphans(const api::CompileCache& cache);
  [[nodiscard]] bool is_the_one_there(const api::CompileCache& cache) const;
  // `rule`: for the log. `why`: for people, after "archive NAME (SIZE) ".
  bool remove(const api::CompileCache& cache, const std::string& name, const std::string& rule,
              const std::string& why);
  [[nodiscard]] std::set<std::string> archives_of_pod(const api::CompileCache& cache,
                                                      const PodView& pod) const;
  std::set<std::string> archives_like(const api::CompileCache& cache,
                                      const std::optional<api::ArchiveKey>& key) const;
  std::set<std::string> in_use(const api::CompileCache& cache) const;
  StatusInput gather(const api::CompileCache& cache, const StorageFacts& facts,
                     StorageVerdict verdict) const;
  Result<Duration> act(const api::CompileCache& cache, const StatusInput& seen,
                       const StatusDecision& decided);
  void tell_not_swept(const api::CompileCache& cache, const std::vector<api::Condition>& before,
                      const std::vector<api::Condition>& after);
  void tell_copied(const api::CompileCache& cache, const std::vector<api::Condition>& before,
                   const std::vector<api::Condition>& after);
  void tell_unheard(const api::CompileCache& cache, const std::vector<api::Condition>& before,
                    const std::vector<api::Condition>& after);
  void tell_change(const api::CompileCache& cache, const std::vector<api::Condition>& before,
                   const std::vector<api::Condition>& after);

  const ControllerParts parts_;
  const Clock& clock_;
  Mutex mutex_;
  // A PersistentVolume as it was read for a claim. It may be deleted and created again under its
  // name, with other node affinity.
  struct KnownVolume {
    VolumeView volume;
    std::string claim;  // uid
    Monotonic read{};
  };
  std::map<std::string, KnownVolume> volumes_ GUARDED_BY(mutex_);  // by name
  std::map<std::string, std::string> met_
      GUARDED_BY(mutex_);  // CompileCaches that were taken over, to their uid
  std::map<std::string, int> conflicts_ GUARDED_BY(mutex_);  // in a row, by CompileCache
  std::map<std::string, std::set<std::string>> archives_
      GUARDED_BY(mutex_);  // uids, as last seen, by CompileCache
};

}  // namespace compilecache::controller
