#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "base/clock.hpp"
#include "base/mutex.hpp"
#include "operator/archives/fair_places.hpp"

// Knows which pods are loading now, and which pod of a key went first. Both are in the leader's
// memory; after a change of leader they start empty, which may cost a moment of too many loads or a
// second first pod, never correctness.
//
// Single flight: the first cold pod of a key compiles, the others wait for its archive.
//
//   traffic.goes_second(...)     false: this pod is the first and goes ahead
//   traffic.goes_ahead(...)      one that never waits is the first, too, if nobody is
//   traffic.saved(...)           it has committed; the others are held until it seems to be done
//   traffic.compiling(...)       it is not: held until it commits again
//   traffic.holds(...)           whether others are still held, though there is an archive
//   traffic.gives_up(...)        it will not save: the next one goes ahead
//
// The caller bounds how long a pod waits.
//
// Thread-safe.

namespace compilecache::controller {

class LoadTraffic {
 public:
  using Alive = std::function<bool(const std::string& pod, const std::string& uid)>;

  LoadTraffic(int max_concurrent_loads, const Clock& clock);

  // A load from a store, by a pod of a namespace.
  struct Load {
    FairPlaces::Tenant tenant;
    std::string pod_uid;
    int64_t bytes = 0;  // of the archive, compressed
    std::chrono::milliseconds budget{0};
  };
  // Whether this pod may load now; a store's places are shared fairly among namespaces. Its place
  // is free again with end(), or after as long as such an archive takes, going by what this
  // namespace's loads from the store took: `budget` at most.
  FairPlaces::Answer begin(const Load& load);
  // `took`: what the load took, where it read `bytes`; zero: it read nothing.
  void end(const FairPlaces::Tenant& tenant, const std::string& pod_uid, int64_t bytes = 0,
           std::chrono::milliseconds took = {});
  // How many pods of the namespace recently got the answer to wait for the store's places.
  size_t waiting(const FairPlaces::Tenant& tenant);
  // How many pods recently got the answer to wait for this archive.
  size_t waiting(const std::string& archive);

  // Whether another pod goes first for this archive and is still `alive`. If not, this pod is the
  // first from now on, for `tenure`: one that has not saved by then is overtaken. No tenure: it
  // never is the first, since it cannot save.
  bool goes_second(const std::string& archive, const std::string& pod, const std::string& pod_uid,
                   std::chrono::milliseconds tenure, const Alive& alive);
  // The pod compiles in any case: it is the first from now on where nobody alive is.
  void goes_ahead(const std::string& archive, const std::string& pod, const std::string& pod_uid,
                  std::chrono::milliseconds tenure, const Alive& alive);
  // The pod has committed this archive. Those that wait for a first pod are held for `settle`,
  // unless it is zero. Later saves, when nobody has waited for long, hold nobody.
  void saved(const std::string& archive, const std::string& pod, const std::string& pod_uid,
             std::chrono::milliseconds settle);
  // The pod that committed this archive compiles on.
  void compiling(const std::string& archive, const std::string& pod_uid);
  // Whether waiting pods continue to wait although the archive is there. Not for the
  // pod that saved it.
  bool holds(const std::string& archive, const std::string& pod_uid, const Alive& alive);
  void gives_up(const std::string& archive, const std::string& pod_uid);
  // The name of the pod that goes or went first and for which others may be held; empty: none.
  [[nodiscard]] std::string first(const std::string& archive) const;
  // It has ended (PodLedger::on_end): its place is free, and it goes first nowhere.
  void gone(const std::string& pod_uid);

 private:
  struct First {
    std::string pod, uid;
    Monotonic until{};
    bool saved = false;  // then `until` is when others are let go
  };
  // Whether a pod other than this one goes first. If not, this one does.
  bool another_is_first(const std::string& archive, const First& candidate, const Alive& alive)
      REQUIRES(mutex_);

  [[nodiscard]] Duration time_for(const Load& load) const REQUIRES(mutex_);

  const Clock& clock_;
  mutable Mutex mutex_;
  FairPlaces places_ GUARDED_BY(mutex_);
  // Nanoseconds for each byte, by store and namespace, so that no pod's word counts for another's.
  std::map<std::string, double> pace_ GUARDED_BY(mutex_);
  using Pods = std::map<std::string, Monotonic>;            // by uid, until
  std::map<std::string, Pods> waiting_ GUARDED_BY(mutex_);  // by archive
  std::map<std::string, First> first_ GUARDED_BY(mutex_);   // by "namespace/archive"
};

}  // namespace compilecache::controller
