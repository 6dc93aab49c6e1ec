#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "base/clock.hpp"

// Decides when the next sweep Job of one CompileCache is due. Pure: no clock, no I/O.

namespace compilecache::controller {

struct SweepNeeds {
  bool may_run = false;                 // the claim can be mounted
  bool running = false;                 // a Job of this store has not ended
  bool prepared = false;                // a Job has found the volume usable
  std::optional<WallTime> last_start;   // of the newest Job that is known
  std::optional<WallTime> last_report;  // when a Job last reported its end
  int failures = 0;                     // Jobs in a row that ended without a report
  int repeats = 0;                      // Jobs in a row that were started for the last one's reason
  // Reasons to sweep before the interval is over.
  bool asked = false;     // archives were deleted, the spec changed, a Job must be redone
  bool suspects = false;  // archives wait to be checked
  std::optional<WallTime> first_deletable;  // when the grace of the oldest condemned blob is over
  std::chrono::milliseconds interval{}, min_interval{};
};

struct SweepDecision {
  std::string reason;       // why one starts now, a word for the log; empty: none does
  Duration again_after{0};  // when to ask again; 0: only when something changes

  [[nodiscard]] bool start() const { return !reason.empty(); }
};

SweepDecision decide_sweep(const SweepNeeds& facts, WallTime now);

}  // namespace compilecache::controller
