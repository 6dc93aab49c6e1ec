#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/mutex.hpp"
#include "kube/client.hpp"
#include "kube/events.hpp"
#include "operator/breaker/breaker.hpp"
#include "operator/breaker/event_sightings.hpp"
#include "operator/cluster/cluster_view.hpp"
#include "operator/settings/settings.hpp"
#include "operator/storage/storage_check.hpp"
#include "operator/storage/sweeper.hpp"

// The breaker of every CompileCache: checks its pods and what the kubelet says about their volumes,
// judges, asks for probes, and, where that is wanted, replaces stuck pods.
//
//   BreakerKeeper keeper(client, settings, view, pods, sweeper, events, false, clock);
//   const BreakerSight sight = keeper.gather(*cache, storage_facts);   // in reconcile(): reads
//   const BreakerVerdict verdict = judge_breaker(sight.before, sight.input, rules, now);  // pure
//   write_breaker(verdict.state, generation, format_time(now), status);
//   const Duration again = keeper.act(*cache, sight, verdict);         // probes and evictions
//
// The status then says whether injection is paused, and why, and names the stuck pods; the webhook
// and a new leader need no more. gather() changes nothing that anybody
// else sees; it only remembers since when it has seen what. Thread-safe; gather() and act() call
// the API server, one thread at a time for each CompileCache.

namespace compilecache::controller {

// One look at a CompileCache's pods and at what the cluster says about them.
struct BreakerSight {
  BreakerState before;
  BreakerInput input;
  Duration again{0};  // when Events should be read again; 0: nobody waits for volumes
};

class BreakerKeeper {
 public:
  // `replace`: stuck pods are evicted, so that their owners make new ones without injection.
  BreakerKeeper(kube::Client client, const Settings& settings, const ClusterView& view,
                PodLedger& pods, Sweeper& sweeper, kube::EventSink& events, bool replace,
                const Clock& clock);

  BreakerSight gather(const api::CompileCache& cache, const StorageFacts& storage);
  // Does what follows from the verdict on that sight; when to come again on that account, 0: when
  // something changes.
  Duration act(const api::CompileCache& cache, const BreakerSight& sight,
               const BreakerVerdict& verdict);
  void forget(const std::string& cache);

 private:
  struct State {
    PodTroubles troubles;
    BreakerState breaker;
    std::map<std::string, std::string> failed_mounts;  // by pod uid
    std::optional<Monotonic> events_read;
    EventSightings mount_events, refusal_events;
    std::optional<Monotonic> turned;        // we opened or closed it last
    std::optional<Monotonic> written_open;  // the status has said so, as far as we saw
    std::optional<int64_t> probe;           // that was asked for
    int64_t probed_generation = 0;
    std::set<std::string> replaced;  // uids
  };
  // The webhook's last known Event about an owner of pods.
  struct InjectedOwner {
    Monotonic asked{};
    Duration pause{0};                // before we ask again
    std::set<size_t> first;           // the injected containers' places in its pods; empty: none
    std::optional<Monotonic> unread;  // since when its Events cannot be read
  };

  std::shared_ptr<State> state_of(const api::CompileCache& cache);
  StuckPods look_at_pods(State& state, const api::CompileCache& cache, const VolumeSight& volume);
  // When to read them again; 0: nobody waits for volumes.
  Duration read_events(State& state, const StuckPods& seen, const api::CompileCache& cache,
                       const VolumeSight& volume);
  // By pod uid.
  Result<std::map<std::string, std::string>> read_failed_mounts(State& state, const StuckPods& seen,
                                                                const api::CompileCache& cache,
                                                                const VolumeSight& volume,
                                                                const char* reason) const;
  struct Candidate {
    std::shared_ptr<const Refusal> refusal;
    Monotonic since{};  // when we saw it first
    Monotonic asked{};  // when we asked about its owner last
  };
  std::vector<Candidate> fresh_refusals(State& state, const api::CompileCache& cache);
  // `again`: when to look at those that are still unknown.
  std::optional<RefusedPod> refused_pod(State& state, const api::CompileCache& cache,
                                        Duration& again);
  // Asks the API server at most `asks` times. False, too, where it is unknown until `again`.
  bool is_ours(const Refusal& refusal, int& asks, Duration& again);
  std::optional<InjectedOwner> known_owner(const Refusal& refusal);
  void remember_owner(const Refusal& refusal, InjectedOwner owner);
  Result<std::set<size_t>> first_places(const Refusal& refusal) const;
  Duration take_verdict(State& state, const BreakerVerdict& verdict, const std::string& cache);
  Probe probe_of(const State& state, const std::string& cache) const;
  Duration replace_stuck(State& state, const StuckPods& seen, const api::CompileCache& cache);
  bool replace(const api::CompileCache& cache, const StuckPod& pod);

  const kube::Client client_;
  const Settings& settings_;
  const ClusterView& view_;
  PodLedger& pods_;
  Sweeper& sweeper_;
  kube::EventSink& events_;
  const bool replace_;
  const Clock& clock_;
  Mutex mutex_;
  std::map<std::string, std::shared_ptr<State>> states_ GUARDED_BY(mutex_);
  std::optional<Monotonic> replaced_last_ GUARDED_BY(mutex_);
  // By namespace and uid: an author of Events can name any uid, and is believed in that namespace.
  std::map<std::string, InjectedOwner> owners_ GUARDED_BY(mutex_);
};

}  // namespace compilecache::controller
