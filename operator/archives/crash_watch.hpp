#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/mutex.hpp"
#include "operator/cluster/cluster_view.hpp"
#include "operator/pods/pod_ledger.hpp"

// Finds archives that make applications crash although every digest is right: with a shared object,
// say, that was packed half-written. Init containers do not run again when a container restarts, so
// a pod that loaded such an archive crashes again and again.
//
//   PodLedger pods;
//   CrashWatch crashes(pods);
//   crashes.loaded("ml/transformer-3f9a1c04b2", manifest, pod_uid);     // "": it started cold
//   crashes.seen({pod->uid, pod->name, pod->ends()});                   // whenever the pod changes
//   for (const Blame& blame : crashes.blame("ml/transformer-3f9a1c04b2")) ...
//
// A manifest is blamed when two pods that loaded it crashed, or one did three times, and these are
// at least half of all that loaded it, and a larger share than among the pods of the same key that
// started without it. It is acquitted when those crash as often. Each end of a container is judged
// by itself, and only ends that we saw count. Pods that are gone still count; those that an earlier
// leader saw do not. Thread-safe; no clock and no I/O. What is known of a pod is in the ledger,
// whose lock is taken with ours held.

namespace compilecache::controller {

struct PodEnds {
  std::string uid, name;
  std::vector<ContainerEnd> ends;  // PodView::ends()
};

struct Blame {
  std::string manifest;
  std::vector<std::string> pods;  // a few that crashed
};

// What the ledger keeps of a pod for this.
struct StartedPod {
  std::string archive, manifest;    // that it started with; no manifest: cold
  std::map<std::string, int> ends;  // seen so far, by container
  int crashes = 0;
};

class CrashWatch {
 public:
  explicit CrashWatch(PodLedger& pods) : pods_(pods) {}

  // `archive` is "namespace/name" of the archive of the pod's exact key, even where the pod loaded
  // nothing.
  void loaded(const std::string& archive, const std::string& manifest, const std::string& pod_uid);
  void seen(const PodEnds& pod);
  // The archive was deleted.
  void forget(const std::string& archive);

  [[nodiscard]] std::vector<Blame> blame(const std::string& archive) const;
  // Whether pods without that manifest crash as well, so that the archive is not the cause.
  [[nodiscard]] bool acquits(const std::string& archive, const std::string& manifest) const;
  // The manifest that the pod loaded; "": none, or not known.
  [[nodiscard]] std::string manifest_of(const std::string& pod_uid) const;

 private:
  // Counts of the pods that loaded one manifest, or none.
  struct Tally {
    int pods = 0, crashed = 0, most_crashes = 0;
    std::vector<std::string> names;  // of some that crashed
  };
  using Tallies = std::map<std::string, Tally>;  // by manifest
  static bool is_blamed(const Tally& with, const Tally& without);
  static Tally without(const Tallies& tallies, const std::string& manifest);

  PodLedger& pods_;
  mutable Mutex mutex_;
  std::map<std::string, Tallies> archives_ GUARDED_BY(mutex_);
};

}  // namespace compilecache::controller
