#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/clock.hpp"

// When the registry's pod is made anew so that its garbage is collected, which happens before it
// starts. Pods that start in those seconds start cold, and saves push once more.
//
//   const RollFacts facts{.started = started, .garbage = garbage_since(deleted, started),
//                         .saves = 0, .last_save = last_save, .now = clock.wall()};
//   if (roll_is_due(facts, rules)) ...
//
// Pure.

namespace compilecache::controller {

struct RollRules {
  uint64_t above = 5ULL << 30;                   // bytes of garbage
  Duration interval = std::chrono::hours(24);    // at least, between two
  Duration quiet_for = std::chrono::minutes(2);  // without a save
};
// After so many intervals what is due waits for a quiet moment no longer, and what nobody has
// counted (saves that died) counts as enough.
inline constexpr int kLongestWait = 7;

struct RollFacts {
  // When the pod that runs was told to start; nothing: none runs, or it is not known.
  std::optional<WallTime> started;
  uint64_t garbage = 0;               // bytes deleted since then
  size_t saves = 0;                   // under way
  std::optional<WallTime> last_save;  // that was committed
  WallTime now{};
};
bool roll_is_due(const RollFacts& facts, const RollRules& rules);

// What a sweep has deleted, and the registry has not freed yet.
struct DeletedBytes {
  WallTime time{};
  uint64_t bytes = 0;
};
uint64_t garbage_since(const std::vector<DeletedBytes>& deleted, WallTime started);

}  // namespace compilecache::controller
