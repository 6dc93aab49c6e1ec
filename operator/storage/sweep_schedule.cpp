#include "operator/storage/sweep_schedule.hpp"

#include <algorithm>

namespace compilecache::controller {
namespace {

// A Job that failed, or left what it was started for (an archive that cannot be read), is tried
// again soon, then ever more rarely.
constexpr std::chrono::minutes kLongestRetry{10};
constexpr int kMostDoublings = 10;

std::optional<std::string> wanted(const SweepNeeds& facts, WallTime now) {
  if (!facts.prepared) return "prepare";
  if (facts.asked) return "asked";
  if (facts.suspects) return "suspect";
  if (facts.first_deletable && *facts.first_deletable <= now) return "condemned";
  if (!facts.last_report || *facts.last_report + facts.interval <= now) return "interval";
  return std::nullopt;
}

Duration pause_after_last(const SweepNeeds& facts) {
  Duration pause = facts.min_interval;
  const int doublings = std::max(facts.failures, facts.repeats);
  for (int i = 0; i < std::min(doublings, kMostDoublings); ++i) pause *= 2;
  return std::min<Duration>(pause, std::max<Duration>(kLongestRetry, facts.min_interval));
}

}  // namespace

SweepDecision decide_sweep(const SweepNeeds& facts, WallTime now) {
  if (!facts.may_run || facts.running) return {};
  if (auto reason = wanted(facts, now)) {
    if (!facts.last_start) return {*reason};
    const WallTime earliest =
        *facts.last_start + std::chrono::duration_cast<WallTime::duration>(pause_after_last(facts));
    if (earliest <= now) return {*reason};
    return {{}, earliest - now};
  }
  WallTime next = *facts.last_report + facts.interval;
  if (facts.first_deletable) next = std::min(next, *facts.first_deletable);
  return {{}, next - now};
}

}  // namespace compilecache::controller
