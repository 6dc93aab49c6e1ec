#include "operator/registry/collection_roll.hpp"

#include <algorithm>

namespace compilecache::controller {
namespace {

// Whole seconds or finer: what WallTime counts in.
WallTime after(WallTime time, Duration pause) {
  return time + std::chrono::duration_cast<WallTime::duration>(pause);
}

}  // namespace

bool roll_is_due(const RollFacts& facts, const RollRules& rules) {
  if (!facts.started || facts.now - *facts.started < rules.interval) return false;
  const WallTime uncounted = after(*facts.started, kUncounted * rules.interval);
  const bool saved_since = facts.last_save && *facts.last_save > *facts.started;
  std::optional<WallTime> due;
  if (facts.enough_since)
    due = std::max(*facts.enough_since, after(*facts.started, rules.interval));
  if ((saved_since || facts.leftovers) && facts.now >= uncounted) {
    due = due ? std::min(*due, uncounted) : uncounted;
  }
  if (!due) return false;
  if (facts.now - *due >= rules.longest_wait) return true;
  return facts.saves == 0 && (!facts.last_save || facts.now - *facts.last_save >= rules.quiet_for);
}

bool full_roll_is_due(const FullFacts& facts, const RollRules& rules) {
  if (!facts.started || !facts.reported || *facts.reported <= *facts.started) return false;
  constexpr int kMostDoublings = 16;
  const Duration pause = kFullPause * (1 << std::min(facts.rolls, kMostDoublings));
  return facts.now - *facts.started >= std::min(pause, std::max(rules.interval, kFullPause));
}

uint64_t garbage_since(const std::vector<DeletedBytes>& deleted, WallTime started) {
  uint64_t bytes = 0;
  for (const DeletedBytes& one : deleted) {
    if (one.time > started) bytes += one.bytes;
  }
  return bytes;
}

std::optional<WallTime> enough_since(std::vector<DeletedBytes> deleted, WallTime started,
                                     const RollRules& rules) {
  std::sort(deleted.begin(), deleted.end(),
            [](const auto& a, const auto& b) { return a.time < b.time; });
  uint64_t bytes = 0;
  for (const DeletedBytes& one : deleted) {
    if (one.time <= started) continue;
    bytes += one.bytes;
    if (bytes >= rules.above) return one.time;
  }
  return std::nullopt;
}

}  // namespace compilecache::controller
