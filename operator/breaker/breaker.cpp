#include "operator/breaker/breaker.hpp"

#include <algorithm>

#include "base/duration.hpp"
#include "base/time_format.hpp"
#include "operator/cluster/earliest_requeue.hpp"

namespace compilecache::controller {
namespace {

using std::chrono::milliseconds;

constexpr size_t kMostNames = 32;
constexpr int kMostPauseDoublings = 20;
constexpr char kUntilThen[] = ". Until that is fixed, pods are created without the cache";
constexpr char kBreakerOpen[] = "Open";
constexpr char kBreakerClosed[] = "Closed";

// Pods with fresh trouble, and pods that started, made at about the same time as the newest in
// trouble: what happened to older ones says nothing about now.
struct Evidence {
  std::vector<const StuckPod*> pods;
  size_t started = 0;
  std::set<std::string> nodes;
  bool everywhere = false;  // no node took it
  WallTime since{};         // the oldest of it
};

// Not what there was already when it closed last: that is known, and did not keep it open.
bool is_fresh(const StuckPod& pod, const BreakerState& before) {
  if (!pod.lasts) return false;
  if (!before.since) return true;
  if (!before.newest_pod.empty() && pod.created > before.newest_pod) return true;
  return !pod.was_told && pod.since >= *before.since;
}

std::string earliest_that_counts(const std::string& newest, Duration window) {
  const auto made = parse_time(newest);
  return made ? format_time(*made - std::chrono::duration_cast<WallTime::duration>(window)) : "";
}

Evidence collect_evidence(const BreakerState& before, const StuckPods& seen,
                          const Settings::Breaker& rules) {
  Evidence evidence;
  std::string newest;
  for (const StuckPod& pod : seen.pods) {
    if (is_fresh(pod, before)) newest = std::max(newest, pod.created);
  }
  const std::string earliest = earliest_that_counts(newest, rules.window);
  for (const StuckPod& pod : seen.pods) {
    if (!is_fresh(pod, before) || pod.created < earliest) continue;
    if (evidence.pods.empty() || pod.since < evidence.since) evidence.since = pod.since;
    evidence.pods.push_back(&pod);
    if (pod.node.empty()) evidence.everywhere = true;
    evidence.nodes.insert(pod.node);
  }
  evidence.started = static_cast<size_t>(
      std::count_if(seen.started.begin(), seen.started.end(),
                    [&](const std::string& created) { return created >= earliest; }));
  return evidence;
}

bool is_large_enough(const Evidence& evidence, const Settings::Breaker& rules) {
  const size_t all = evidence.pods.size() + evidence.started;
  return !evidence.pods.empty() &&
         evidence.pods.size() * 100 >= all * static_cast<size_t>(rules.share_percent);
}

BreakerState opened_breaker(const BreakerState& before, const Settings::Breaker& rules,
                            WallTime now) {
  BreakerState state;
  state.open = true;
  state.since = now;
  const bool again = before.since && now - *before.since < rules.longest_pause;
  state.openings = again ? before.openings + 1 : 1;
  state.newest_pod = before.newest_pod;
  state.probe_at = now + std::chrono::duration_cast<WallTime::duration>(pause_of(state, rules));
  return state;
}

void say_stuck(BreakerState& state, const Evidence& evidence) {
  const StuckPod& first = *evidence.pods.front();
  state.node = first.node;
  state.reason = to_string(first.trouble);
  state.message = std::to_string(evidence.pods.size()) + " of " +
                  std::to_string(evidence.pods.size() + evidence.started) +
                  " pods could not start with what is injected; pod " + first.name + ": " +
                  first.text + kUntilThen;
}

void say_refused(BreakerState& state, const RefusedPod& refused) {
  state.reason = to_string(Trouble::kRefused);
  state.message = "pods are not admitted with what is injected; " + refused.text + kUntilThen;
}

BreakerState closed_breaker(const BreakerState& before, const std::string& newest_pod,
                            const char* reason, const char* message, WallTime now) {
  BreakerState state;
  state.since = now;
  state.openings = before.openings;
  state.newest_pod = std::max(before.newest_pod, newest_pod);
  state.reason = reason;
  state.message = message;
  return state;
}

void judge_closed(BreakerVerdict& verdict, const BreakerState& before, const BreakerInput& sight,
                  const Settings::Breaker& rules, WallTime now) {
  if (sight.refused) {
    verdict.state = opened_breaker(before, rules, now);
    say_refused(verdict.state, *sight.refused);
    return;
  }
  const Evidence evidence = collect_evidence(before, sight.seen, rules);
  if (!is_large_enough(evidence, rules)) return;
  if (!evidence.everywhere && evidence.nodes.size() < 2 && sight.nodes > 1) {
    if (evidence.started > 0) return;  // then it is that node
    const Duration left = evidence.since + rules.one_node - now;
    if (left > Duration::zero()) {
      verdict.again = earliest_requeue(verdict.again, left);
      return;
    }
  }
  verdict.state = opened_breaker(before, rules, now);
  say_stuck(verdict.state, evidence);
}

void judge_open(BreakerVerdict& verdict, const BreakerInput& sight, const Settings::Breaker& rules,
                WallTime now) {
  BreakerState& state = verdict.state;
  const WallTime earliest =
      state.since.value_or(now) +
      std::chrono::duration_cast<WallTime::duration>(pause_of({.openings = state.openings}, rules));
  const bool recovered =
      sight.seen.recovered && std::all_of(sight.seen.pods.begin(), sight.seen.pods.end(),
                                          [](const StuckPod& pod) { return pod.ended; });
  if (recovered && now < earliest) verdict.again = earliest_requeue(verdict.again, earliest - now);
  if (recovered && now >= earliest) {
    state = closed_breaker(state, sight.seen.newest, "PodsRecovered",
                           "the pods that could not start have started", now);
    return;
  }
  if (sight.probe == Probe::kSucceeded) {
    state = closed_breaker(state, sight.seen.newest, "ProbeSucceeded",
                           "a Job with our image and the claim has run", now);
    return;
  }
  if (sight.probe == Probe::kFailed) {
    ++state.failed_probes;
    state.node.clear();  // it may be that node which is full, or gone
    state.probe_at = now + std::chrono::duration_cast<WallTime::duration>(pause_of(state, rules));
  } else if (sight.spec_changed && now < state.probe_at) {
    state.probe_at = now;
  }
  verdict.probe = now >= state.probe_at;
  if (!verdict.probe) verdict.again = earliest_requeue(verdict.again, state.probe_at - now);
}

// A time in the future, by the clock of a previous leader that was ahead, counts as now.
BreakerState as_of_now(BreakerState state, const Settings::Breaker& rules, WallTime now) {
  if (state.since) state.since = std::min(*state.since, now);
  const auto pause = std::chrono::duration_cast<WallTime::duration>(pause_of(state, rules));
  state.probe_at = std::min(state.probe_at, now + pause);
  return state;
}

}  // namespace

Duration pause_of(const BreakerState& state, const Settings::Breaker& rules) {
  Duration pause = rules.pause;
  const int doublings = std::max(0, state.openings - 1) + state.failed_probes;
  for (int i = 0; i < std::min(doublings, kMostPauseDoublings) && pause < rules.longest_pause;
       ++i) {
    pause *= 2;
  }
  return std::min<Duration>(pause, std::max<Duration>(rules.longest_pause, rules.pause));
}

BreakerVerdict judge_breaker(const BreakerState& written, const BreakerInput& sight,
                             const Settings::Breaker& rules, WallTime now) {
  const BreakerState before = as_of_now(written, rules, now);
  BreakerVerdict verdict{.state = before, .again = sight.seen.again};
  if (before.open) {
    judge_open(verdict, sight, rules, now);
  } else {
    judge_closed(verdict, before, sight, rules, now);
  }
  for (const StuckPod& pod : sight.seen.pods) {
    const bool named = pod.lasts && (!pod.ended || verdict.state.open);
    if (named && verdict.stuck.size() < kMostNames) verdict.stuck.push_back(pod.name);
  }
  if (verdict.state.open && !before.open) {
    verdict.again = earliest_requeue(verdict.again, pause_of(verdict.state, rules));
  }
  return verdict;
}

BreakerState read_breaker(const api::CompileCacheStatus& status) {
  BreakerState state;
  state.open = status.breaker.state == kBreakerOpen;
  if (const auto since = parse_time(status.breaker.since)) state.since = *since;
  state.openings = static_cast<int>(status.breaker.openings);
  state.failed_probes = static_cast<int>(status.breaker.failed_probes);
  if (const auto probe = parse_time(status.breaker.probe_time)) state.probe_at = *probe;
  state.node = status.breaker.node;
  state.newest_pod = status.breaker.newest_pod;
  if (const auto* paused = api::find_condition(status.conditions, api::kInjectionPausedCondition)) {
    state.reason = paused->reason;
    state.message = paused->message;
  }
  return state;
}

void write_breaker(const BreakerState& state, int64_t generation, const std::string& now,
                   api::CompileCacheStatus& status) {
  status.breaker = {};
  if (state.since) {
    status.breaker.state = state.open ? kBreakerOpen : kBreakerClosed;
    status.breaker.since = format_time(*state.since);
    status.breaker.openings = state.openings;
    status.breaker.failed_probes = state.failed_probes;
    if (state.open) status.breaker.probe_time = format_time(state.probe_at);
    status.breaker.node = state.node;
    status.breaker.newest_pod = state.newest_pod;
  }
  api::set_condition(status.conditions,
                     {api::kInjectionPausedCondition,
                      state.open ? "True" : "False",
                      state.reason.empty() ? "AsExpected" : state.reason,
                      state.message.empty() ? "injection is not paused" : state.message,
                      {},
                      generation},
                     now);
}

}  // namespace compilecache::controller
