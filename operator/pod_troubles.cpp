#include <algorithm>

#include "operator/breaker.hpp"
#include "operator/sooner.hpp"

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

// What a pod was found in is forgotten only when it has been well for a while: a container that is
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

StuckPods PodTroubles::look(const std::vector<PodLook>& pods,
                            const std::map<std::string, std::string>& failed_mounts, WallTime now) {
  StuckPods seen;
  std::map<std::string, Entry> entries;
  Duration youngest_wait{0};
  for (const PodLook& look : pods) {
    const PodView& pod = *look.pod;
    auto known = entries_.extract(pod.uid);
    const bool told = expected_.erase(pod.name) > 0;
    if (known.empty() && !told &&
        (look.sign.kind == PodSign::Kind::kNone || look.sign.kind == PodSign::Kind::kPast)) {
      continue;
    }
    Entry entry = known.empty() ? Entry{look.sign.kind, now, {}, {}} : std::move(known.mapped());
    if (entry.kind != look.sign.kind) {
      entry.kind = look.sign.kind;
      entry.kind_since = now;
    }
    if (told) entry.found = Found{Trouble::kStart, "", Duration(0), now, true};
    update(entry, look, trouble_of(look, entry, failed_mounts, now), now);
    const Duration age = now - entry.kind_since;
    if (entry.kind == PodSign::Kind::kWaits || entry.kind == PodSign::Kind::kLoads) {
      if (age < look.sign.patience) {
        seen.again = sooner(seen.again, look.sign.patience - age);
      } else if (entry.kind == PodSign::Kind::kWaits) {
        seen.waiting.insert(pod.uid);
        youngest_wait = sooner(youngest_wait, std::max<Duration>(age, seconds(1)));
      }
    }
    if (entry.quiet_since) {
      seen.again = sooner(seen.again, *entry.quiet_since + rules_.patience - now);
    }
    if (entry.found) {
      const Found& found = *entry.found;
      const Duration left = found.since + found.patience - found.last;
      const bool lasts = found.was_told || left <= Duration::zero();
      if (!lasts && !entry.quiet_since) seen.again = sooner(seen.again, left);
      seen.pods.push_back({pod.name, pod.uid, pod.node, pod.created, found.trouble, found.text,
                           found.since, lasts, found.was_told, pod.ended(),
                           lasts && is_replaceable(pod)});
    }
    const bool tells =
        entry.found || entry.kind == PodSign::Kind::kWaits || entry.kind == PodSign::Kind::kLoads;
    if (tells) entries.emplace(pod.uid, std::move(entry));
  }
  entries_ = std::move(entries);
  expected_.clear();
  std::sort(seen.pods.begin(), seen.pods.end(),
            [](const StuckPod& a, const StuckPod& b) { return a.name < b.name; });
  if (!seen.waiting.empty()) {
    seen.read_events = std::clamp<Duration>(youngest_wait / 2, kSoonestEvents, kLatestEvents);
  }
  for (const PodLook& look : pods) {
    if (seen.pods.empty()) break;
    if (look.sign.kind == PodSign::Kind::kPast) seen.past.push_back(look.pod->created);
  }
  seen.recovered = recovered_;
  return seen;
}

}  // namespace compilecache::controller
