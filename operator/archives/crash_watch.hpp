#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/mutex.hpp"
#include "operator/cluster/cluster_view.hpp"

// Which archives make applications crash although every digest is right: a half-written shared
// object, say, that was whole as bytes go. Init containers do not run again when a container
// restarts, so such a pod crashes on what it was given for ever.
//
//   CrashWatch crashes;
//   crashes.loaded("ml/transformer-3f9a1c04b2", manifest, pod_uid);     // "": it started cold
//   crashes.seen({pod->uid, pod->name, pod->ends()});                   // whenever the pod changes
//   for (const Blame& blame : crashes.blame("ml/transformer-3f9a1c04b2")) ...
//
// An archive is blamed for a manifest when two pods that loaded it crashed, or one did three times,
// and these are at least half of all that loaded it, and a larger share than of the pods of the
// same key that started without it. Each end counts for itself: of a container that was restarted
// six times only those ends are crashes that were seen to be. It is acquitted when those crash no
// less. What pods that are gone did still counts; what an earlier leader saw does not. Thread-safe;
// no clock and no I/O.

namespace compilecache::controller {

struct PodEnds {
  std::string uid, name;
  std::vector<ContainerEnd> ends;  // PodView::ends()
};

struct Blame {
  std::string manifest;
  std::vector<std::string> pods;  // a few that crashed
};

class CrashWatch {
 public:
  // `archive` is "namespace/name", of the pod's exact key also where it loaded nothing.
  void loaded(const std::string& archive, const std::string& manifest, const std::string& pod_uid);
  void seen(const PodEnds& pod);
  void gone(const std::string& pod_uid);
  // The archive was deleted.
  void forget(const std::string& archive);

  [[nodiscard]] std::vector<Blame> blame(const std::string& archive) const;
  // Pods without that manifest crash as well: it was not the archive.
  [[nodiscard]] bool acquits(const std::string& archive, const std::string& manifest) const;
  // What the pod loaded; "": nothing, or not known.
  [[nodiscard]] std::string manifest_of(const std::string& pod_uid) const;

 private:
  // Of the pods that loaded one manifest, or none.
  struct Tally {
    int pods = 0, crashed = 0, most_crashes = 0;
    std::vector<std::string> names;  // of some that crashed
  };
  using Tallies = std::map<std::string, Tally>;  // by manifest
  struct Pod {
    std::string archive, manifest;
    std::map<std::string, int> ends;  // seen so far, by container
    int crashes = 0;
  };
  static bool is_blamed(const Tally& with, const Tally& without);
  static Tally without(const Tallies& tallies, const std::string& manifest);

  mutable Mutex mutex_;
  std::map<std::string, Tallies> archives_ GUARDED_BY(mutex_);
  std::map<std::string, Pod> pods_ GUARDED_BY(mutex_);  // by uid
};

}  // namespace compilecache::controller
