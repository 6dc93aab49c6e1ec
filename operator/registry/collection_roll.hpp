#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/clock.hpp"

// When the registry's pod is restarted so that its garbage is collected, which happens before it
// starts. Saves that meet it push once more.
//
//   const RollFacts facts{.started = started, .enough_since = enough_since(deleted, started,
//   rules),
//                         .saves = 0, .last_save = last_save, .now = clock.wall()};
//   if (roll_is_due(facts, rules)) ...
//
// Pure.

namespace compilecache::controller {

struct RollRules {
  uint64_t above = 5ULL << 30;                    // bytes of garbage
  Duration interval = std::chrono::hours(24);     // at least, between two
  Duration quiet_for = std::chrono::minutes(2);   // without a save
  Duration longest_wait = std::chrono::hours(1);  // for a quiet moment
};
// After so many intervals any garbage is enough, also what nobody has counted (saves that died).
inline constexpr int kUncounted = 7;

struct RollFacts {
  // When the pod that runs was told to start; nothing: none runs, or it is not known.
  std::optional<WallTime> started;
  std::optional<WallTime> enough_since;  // there is enough garbage; nothing: there is not
  size_t saves = 0;                      // under way
  std::optional<WallTime> last_save;     // that was committed
  bool leftovers = false;                // something was deleted, how little it may be
  WallTime now{};
};
bool roll_is_due(const RollFacts& facts, const RollRules& rules);

// A registry without room is collected sooner. It may still have none afterwards, so the pauses
// between such restarts double, from the first one on.
inline constexpr Duration kFullPause = std::chrono::minutes(10);
struct FullFacts {
  std::optional<WallTime> started;   // as above
  std::optional<WallTime> reported;  // when an agent last found it full; nothing: none did
  int rolls = 0;                     // restarts for that reason, one after the other
  WallTime now{};
};
bool full_roll_is_due(const FullFacts& facts, const RollRules& rules);

// What a sweep has deleted, and the registry has not freed yet.
struct DeletedBytes {
  WallTime time{};
  uint64_t bytes = 0;
};
uint64_t garbage_since(const std::vector<DeletedBytes>& deleted, WallTime started);
// When that reached `rules.above`; nothing: it has not.
std::optional<WallTime> enough_since(std::vector<DeletedBytes> deleted, WallTime started,
                                     const RollRules& rules);

}  // namespace compilecache::controller
