#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "operator/breaker/startup_diagnosis.hpp"
#include "operator/cluster/cluster_view.hpp"
#include "operator/pods/pod_ledger.hpp"
#include "operator/settings/settings.hpp"

// Which injected pods of one CompileCache are in trouble on our account, and since when: a sign
// (startup_diagnosis.hpp) has to last before it counts. No clock and no I/O.
//
//   PodTroubles troubles(settings.breaker, ledger);
//   troubles.expect(cache.status.stuck_pods);     // what the previous leader found
//   const StuckPods seen = troubles.evaluate(pods, failed_mounts, now);
//
// Times of pods are by the API server's clock and are compared with each other only; all others are
// by the local clock.

namespace compilecache::controller {

// An injected pod and its present sign. The pod must outlive this.
struct PodLook {
  const PodView* pod = nullptr;
  PodSign sign;
};

struct StuckPod {
  std::string name, uid, node;
  std::string created;  // RFC 3339
  Trouble trouble = Trouble::kStart;
  std::string text;
  WallTime since{};
  bool lasts = false;     // for as long as its sign asks for
  bool was_told = false;  // a previous leader knew of it
  bool ended = false;     // it failed, and nothing waits for it
  bool replaceable = false;
};

struct StuckPods {
  std::vector<StuckPod> pods;        // in trouble, by name
  std::vector<std::string> started;  // beside them: when those were made that got past
  bool recovered = false;            // some pod was in trouble and got past, since settle()
  std::string newest;                // when the newest of all pods was made
  // Pods that wait for volumes for so long that Events should be read, and how soon again.
  std::set<std::string> waiting;  // uids
  Duration read_events{0};
  Duration again{0};  // when to look again; 0: when something changes
};

// Since when a pod is in trouble, or in a state that turns into trouble when it lasts. The ledger
// keeps it; a healthy pod has none.
struct TroubledPod {
  struct Found {
    Trouble trouble = Trouble::kStart;
    std::string text;
    Duration patience{0};
    WallTime since{};
    bool was_told = false;
    WallTime last{};  // when it was seen last
  };
  PodSign::Kind kind = PodSign::Kind::kNone;
  WallTime kind_since{};
  std::optional<Found> found;
  std::optional<WallTime> quiet_since;

  // Whether the pod is in a state that turns into trouble when it lasts.
  [[nodiscard]] bool is_pending() const {
    return kind == PodSign::Kind::kWaits || kind == PodSign::Kind::kLoads;
  }
};

// Remembers, in the ledger, since when each pod is in trouble. Not thread-safe.
class PodTroubles {
 public:
  PodTroubles(const Settings::Breaker& rules, PodLedger& pods) : rules_(rules), pods_(&pods) {}

  // Names of pods that the previous leader knew to be in trouble: they are no news.
  void expect(const std::vector<std::string>& names);
  // `failed_mounts`: by pod uid, the kubelet's message about an injected volume.
  StuckPods evaluate(const std::vector<PodLook>& pods,
                     const std::map<std::string, std::string>& failed_mounts, WallTime now);
  // Pods that have recovered so far no longer count as a recovery.
  void settle() { recovered_ = false; }

 private:
  using Entry = TroubledPod;
  using Found = TroubledPod::Found;

  std::optional<Entry> take(const PodLook& look, WallTime now);
  std::optional<Found> trouble_of(const PodLook& look, const Entry& entry,
                                  const std::map<std::string, std::string>& failed_mounts,
                                  WallTime now) const;
  void update(Entry& entry, const PodLook& look, std::optional<Found> found, WallTime now);
  void tell(const PodLook& look, const Entry& entry, WallTime now, StuckPods& seen) const;

  Settings::Breaker rules_;
  PodLedger* pods_;
  std::set<std::string> expected_;  // names, until their pods were looked at
  bool recovered_ = false;
};

}  // namespace compilecache::controller
