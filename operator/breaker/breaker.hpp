#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "api/compile_cache.hpp"
#include "base/clock.hpp"
#include "operator/breaker/startup_diagnosis.hpp"
#include "operator/cluster/cluster_view.hpp"
#include "operator/pods/pod_ledger.hpp"
#include "operator/settings/settings.hpp"

// Whether pods of one CompileCache are injected, or have to start without, because earlier ones
// could not start with what is injected. No clock and no I/O: what it knows is passed in.
//
//   PodTroubles troubles(settings.breaker, pods);  // what lasts, from look to look
//   troubles.expect(cache.status.stuck_pods);     // of a leader before us
//   const StuckPods seen = troubles.evaluate(pods, failed_mounts, now);
//   const BreakerVerdict verdict = judge_breaker(before, {.seen = seen, .nodes = 3}, rules, now);
//
// It opens on evidence that has lasted (patience), from more than one node where there is more than
// one (or, much later, from one alone where nobody else got past), and only where pods in trouble
// are a share of those made at about the same time: an odd pod among many that start never opens
// it. A pod that was not admitted on our account opens it at once: without us it would be there. It
// closes when those pods get past by themselves, or when a probe, a sweep Job on the node
// that failed, has run; neither sooner than a pause after it opened, which doubles with every
// opening and failed probe, so that it flaps ever more rarely.
//
// Times of pods are by the API server's clock and are compared with each other only; the rest is by
// ours, or by that of a leader before us, whose times are heeded as far as they can be right.

namespace compilecache::controller {

// One look at an injected pod. The pod must outlive what is made of it.
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
  bool was_told = false;  // a leader before us knew of it
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
  Duration again{0};  // when looking again may tell more; 0: when something changes
};

// Since when a pod is in trouble, or in a state that turns into trouble when it lasts. In the
// ledger; pods that have nothing to tell have none.
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

  [[nodiscard]] bool is_pending() const {
    return kind == PodSign::Kind::kWaits || kind == PodSign::Kind::kLoads;
  }
};

// Remembers, in the ledger, since when each pod is in trouble. Not thread-safe.
class PodTroubles {
 public:
  PodTroubles(const Settings::Breaker& rules, PodLedger& pods) : rules_(rules), pods_(&pods) {}

  // Names of pods that were in trouble before we looked: they are no news.
  void expect(const std::vector<std::string>& names);
  // `failed_mounts`: by pod uid, what the kubelet says about a volume of ours.
  StuckPods evaluate(const std::vector<PodLook>& pods,
                     const std::map<std::string, std::string>& failed_mounts, WallTime now);
  // From now on only what recovers later is a recovery.
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

enum class Probe { kNone, kRuns, kSucceeded, kFailed };

// What outlasts us, in status.breaker and the condition InjectionPaused.
struct BreakerState {
  bool open = false;
  std::optional<WallTime> since;  // when it opened or closed last; nothing: it never did
  int openings = 0;               // in a row
  int failed_probes = 0;          // since it opened
  WallTime probe_at{};            // when open: the next probe is due
  std::string node;               // where to probe; empty: anywhere
  std::string newest_pod;         // when that was made which was the newest when it closed last
  std::string reason, message;

  bool operator==(const BreakerState&) const = default;
};
BreakerState read_breaker(const api::CompileCacheStatus& status);
// Into status.breaker and status.conditions.
void write_breaker(const BreakerState& state, int64_t generation, const std::string& now,
                   api::CompileCacheStatus& status);

// A pod that was not admitted on account of our containers.
struct RefusedPod {
  std::string text;  // for people
};

struct BreakerInput {
  StuckPods seen;
  size_t nodes = 0;  // of the cluster
  Probe probe = Probe::kNone;
  bool spec_changed = false;                         // since it opened: worth a probe at once
  std::optional<RefusedPod> refused = std::nullopt;  // since it closed last
};

struct BreakerVerdict {
  BreakerState state;
  bool probe = false;              // one is due
  std::vector<std::string> stuck;  // names for the status, a bounded number
  Duration again{0};               // when to judge again; 0: when something changes
};

BreakerVerdict judge_breaker(const BreakerState& before, const BreakerInput& sight,
                             const Settings::Breaker& rules, WallTime now);

// How long an opening lasts at least, and how far probes are apart.
Duration pause_of(const BreakerState& state, const Settings::Breaker& rules);

}  // namespace compilecache::controller
