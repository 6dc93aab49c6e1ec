#include "operator/breaker/pod_troubles.hpp"

#include <algorithm>

#include "operator/cluster/earliest_requeue.hpp"

namespace compilecache::controller {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

// The kubelet repeats its Events about a volume every two minutes or sooner.
constexpr seconds kSoonestEvents{10};
constexpr minutes kLatestEvents{2};
constexpr char kReplaceable[][12] = {"ReplicaSet", "StatefulSet", "DaemonSet"};

// A Job counts a pod that was deleted as failed; what others do nobody knows.
bool is_replaceable(const PodView& pod) {
  if (pod.owner == nullptr || pod.ended() || !has_started_nothing(pod)) return false;
  return std::any_of(std::begin(kReplaceable), std::end(kReplaceable),
                     [&](const char* kind) { return pod.owner->kind == kind; });
}

}  // namespace

void PodTroubles::expect(const std::vector<std::string>& names) {
  expected_.insert(names.begin(), names.end());
}

std::optional<PodTroubles::Found> PodTroubles::trouble_of(
    const PodLook& look, const Entry& entry,
    const std::map<std::string, std::string>& failed_mounts, WallTime now) const {
  const PodSign& sign = look.sign;
  if (sign.kind == PodSign::Kind::kTrouble)
    return Found{sign.trouble, sign.text, sign.patience, now};
  const bool long_enough = now - entry.kind_since >= sign.patience;
  if (sign.kind == PodSign::Kind::kWaits && long_enough) {
    const auto event = failed_mounts.find(look.pod->uid);
    if (event == failed_mounts.end()) return std::nullopt;
    return Found{Trouble::kMount, event->second, Duration(0), now};
  }
  if (sign.kind == PodSign::Kind::kLoads && long_enough) {
    return Found{Trouble::kSlowLoader, "the loader runs for longer than it may", Duration(0), now};
  }
  return std::nullopt;
}

// A pod's trouble is forgotten only when it has been well for a while: a container that is
// restarted again and again runs in between.
void PodTroubles::update(Entry& entry, const PodLook& look, std::optional<Found> found,
                         WallTime now) {
  if (found) {
    if (entry.found) {
      found->since = entry.found->since;
      found->was_told = entry.found->was_told;
    }
    entry.found = std::move(found);
    entry.found->last = now;
    entry.quiet_since.reset();
    return;
  }
  if (!entry.found) return;
  if (!entry.quiet_since) entry.quiet_since = now;
  if (now - *entry.quiet_since < rules_.patience) return;
  if (look.sign.kind == PodSign::Kind::kPast) recovered_ = true;
  entry.found.reset();
  entry.quiet_since.reset();
}

// The pod's entry, or none where it has nothing to tell.
std::optional<PodTroubles::Entry> PodTroubles::take(const PodLook& look, WallTime now) {
  auto known = pods_->find<TroubledPod>(look.pod->uid);
  const bool told = expected_.erase(look.pod->name) > 0;
  const PodSign::Kind kind = look.sign.kind;
  const bool silent = kind == PodSign::Kind::kNone || kind == PodSign::Kind::kPast;
  if (!known && !told && silent) return std::nullopt;
  Entry entry = known ? std::move(*known) : Entry{kind, now, {}, {}};
  if (entry.kind != kind) {
    entry.kind = kind;
    entry.kind_since = now;
  }
  if (told) entry.found = Found{Trouble::kStart, "", Duration(0), now, true};
  return entry;
}

void PodTroubles::tell(const PodLook& look, const Entry& entry, WallTime now,
                       StuckPods& seen) const {
  const PodView& pod = *look.pod;
  if (entry.is_pending()) {
    const Duration age = now - entry.kind_since;
    if (age < look.sign.patience) {
      seen.again = earliest_requeue(seen.again, look.sign.patience - age);
    } else if (entry.kind == PodSign::Kind::kWaits) {
      seen.waiting.insert(pod.uid);
      const Duration soon = std::clamp<Duration>(age / 2, kSoonestEvents, kLatestEvents);
      seen.read_events = earliest_requeue(seen.read_events, soon);
    }
  }
  if (entry.quiet_since)
    seen.again = earliest_requeue(seen.again, *entry.quiet_since + rules_.patience - now);
  if (!entry.found) return;
  const Found& found = *entry.found;
  const Duration left = found.since + found.patience - found.last;
  const bool lasts = found.was_told || left <= Duration::zero();
  if (!lasts && !entry.quiet_since) seen.again = earliest_requeue(seen.again, left);
  seen.pods.push_back({pod.name, pod.uid, pod.node, pod.created, found.trouble, found.text,
                       found.since, lasts, found.was_told, pod.ended(),
                       lasts && is_replaceable(pod)});
}

StuckPods PodTroubles::evaluate(const std::vector<PodLook>& pods,
                                const std::map<std::string, std::string>& failed_mounts,
                                WallTime now) {
  StuckPods seen;
  for (const PodLook& look : pods) {
    auto entry = take(look, now);
    if (!entry) continue;
    update(*entry, look, trouble_of(look, *entry, failed_mounts, now), now);
    tell(look, *entry, now, seen);
    if (entry->found || entry->is_pending()) {
      pods_->edit<TroubledPod>(look.pod->uid, [&](TroubledPod& pod) { pod = std::move(*entry); });
    } else {
      pods_->drop<TroubledPod>(look.pod->uid);
    }
  }
  expected_.clear();
  std::sort(seen.pods.begin(), seen.pods.end(),
            [](const StuckPod& a, const StuckPod& b) { return a.name < b.name; });
  for (const PodLook& look : pods) {
    seen.newest = std::max(seen.newest, look.pod->created);
    if (seen.pods.empty()) continue;
    if (look.sign.kind == PodSign::Kind::kPast) seen.started.push_back(look.pod->created);
  }
  seen.recovered = recovered_;
  return seen;
}

}  // namespace compilecache::controller
