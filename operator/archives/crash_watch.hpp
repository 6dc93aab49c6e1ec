#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/mutex.hpp"
#include "operator/cluster/cluster_view.hpp"
#include "operator/cluster/pod_group.hpp"
#include "operator/pods/pod_ledger.hpp"

// Finds archives that make applications crash or hang although every digest is right: with a shared
// object, say, that was packed half-written. Init containers do not run again when a container
// restarts, so a pod that loaded such an archive crashes again and again.
//
//   PodLedger pods;
//   CrashWatch crashes(pods);
//   crashes.loaded("ml/transformer-3f9a1c04b2", manifest, pod_uid);     // "": it started cold
//   crashes.seen({pod->uid, pod->name, pod->ends()});                   // whenever the pod changes
//   crashes.look("ml/transformer-3f9a1c04b2", now);                     // now and then
//   for (const Blame& blame : crashes.blame("ml/transformer-3f9a1c04b2")) ...
//
// A witness is a pod, or all pods of one start of a group: what one member does, the others suffer.
// It is bad when a pod of it crashed, or never became ready for far longer than others of the
// archive took. A manifest is blamed when two witnesses of it are bad, or one crashed three times.
// These are also at least half of its witnesses, and a larger share than among the witnesses of the
// same key in which no pod loaded it. It is acquitted when those are bad as often. Each end of a
// container is judged by itself, and only ends that we saw count. Deleted pods still count; those
// that an earlier leader saw do not. At most kMostManifests of an archive and kMostArchives
// of a namespace are watched; of more, those are forgotten that nobody has loaded for longest.
// Thread-safe; no clock and no I/O. The facts of a pod are in the ledger, whose lock is taken with
// this one held.

namespace compilecache::controller {

struct PodEnds {
  std::string uid, name;
  std::vector<ContainerEnd> ends;  // PodView::ends()
  bool running = false;            // PodView::runs()
  bool ready = false;              // PodView::ready
  Monotonic now{};
};

struct Blame {
  std::string manifest;
  std::vector<std::string> pods;  // a few that were bad
  bool hang = false;              // none of them crashed: they never became ready
};

// The facts of one witness.
struct Witness {
  std::set<std::string> manifests;  // that its pods started with; "": one started cold
  int crashes = 0;                  // of the pod that crashed most
  bool hangs = false;
  [[nodiscard]] bool bad() const { return crashes > 0 || hangs; }
};

// Kept by the ledger for each pod.
struct StartedPod {
  std::string archive, manifest;    // that it started with; no manifest: cold
  std::string group;                // key of the group's start that it belongs to; empty: none
  Witness witness;                  // of a pod without a group
  std::map<std::string, int> ends;  // seen so far, by container
  int crashes = 0;
  bool was_ready = false;
};

// "namespace/name" under which the pods of an archive are compared: with those that started cold,
// and with those of its key's archives for other kinds of CPU.
std::string crash_group(const api::CompileCacheArchive& archive);

class CrashWatch {
 public:
  static constexpr size_t kMostManifests = 32, kMostArchives = 1'000;

  explicit CrashWatch(PodLedger& pods) : pods_(pods) {}

  // `archive` is the crash_group() of the archive of the pod's exact key, even where the pod loaded
  // nothing.
  void loaded(const std::string& archive, const std::string& manifest, const std::string& pod_uid,
              const PodGroup& group = {});
  void seen(const PodEnds& pod);
  // It has ended or was deleted.
  void gone(const std::string& pod_uid, Monotonic now);
  // Counts the pods that should be ready by now.
  void look(const std::string& archive, Monotonic now);
  // An archive of the group was deleted.
  void forget(const std::string& archive);

  [[nodiscard]] std::vector<Blame> blame(const std::string& archive) const;
  // Whether pods without that manifest crash as well, so that the archive is not the cause.
  [[nodiscard]] bool acquits(const std::string& archive, const std::string& manifest) const;
  // The manifest that the pod loaded; "": none, or not known.
  [[nodiscard]] std::string manifest_of(const std::string& pod_uid) const;

 private:
  // Counts of witnesses whose pods started with the same manifests.
  struct Tally {
    int witnesses = 0, bad = 0, repeated = 0, crashed = 0;
    std::vector<std::string> names;  // of some bad pods
    uint64_t latest = 0;             // grows with each load of any
  };
  // A pod that runs and has not been ready since its load.
  struct Waiting {
    std::string name;
    Monotonic since;
    bool counted = false;
  };
  struct Watched {
    std::map<std::set<std::string>, Tally> tallies;
    std::map<std::string, Waiting> waiting;  // by uid
    std::optional<Duration> slowest;         // of those that became ready
    uint64_t latest = 0;                     // as a tally's
  };
  // The last start of a group.
  struct Start {
    std::string key;                             // in starts_
    std::map<std::string, std::string> members;  // places to uids
  };

  Watched& watched(const std::string& archive) REQUIRES(mutex_);
  std::string start_of(const std::string& archive, const std::string& pod_uid,
                       const PodGroup& group) REQUIRES(mutex_);
  void change(const std::string& pod_uid, const StartedPod& pod, const std::string& bad_name,
              const std::function<void(Witness&)>& how) REQUIRES(mutex_);
  void wait_or_ready(const PodEnds& seen, const StartedPod& known) REQUIRES(mutex_);
  void count_if_hanging(const std::string& pod_uid, Watched& watched, Monotonic now)
      REQUIRES(mutex_);
  static void count(Tally& tally, const Witness& witness, int sign);
  static bool is_blamed(const Tally& with, const Tally& without);
  static Tally sum(const Watched& watched, const std::string& manifest, bool with);

  PodLedger& pods_;
  mutable Mutex mutex_;
  uint64_t loads_ GUARDED_BY(mutex_) = 0;
  std::map<std::string, Watched> archives_ GUARDED_BY(mutex_);
  std::map<std::string, Start> groups_ GUARDED_BY(mutex_);
  std::deque<std::string> group_order_ GUARDED_BY(mutex_);    // the oldest first
  std::map<std::string, Witness> starts_ GUARDED_BY(mutex_);  // by Start::key
};

}  // namespace compilecache::controller
