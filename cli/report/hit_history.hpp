#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"

// How many pods found an archive, over the last two weeks, as Prometheus' range API returns it of
// compilecache_loads_total (docs/reference/metrics.md).
//
//   const std::string target = history_target("ml", now);    // what to ask
//   auto points = read_history(200, body, now);              // what came
//
// Pure; safe from any thread.

namespace compilecache::cli {

inline constexpr int64_t kHistoryDays = 14;
inline constexpr int64_t kHistoryStepSeconds = 6L * 3600;

// The count up to `time` since the point before. Prometheus estimates at the edges, so these
// are no whole numbers.
struct HistoryPoint {
  int64_t time = 0;  // seconds since 1970
  double warm = 0;   // exact and compatible
  double starts = 0;
};

// Path and query, to be put behind Prometheus' URL; `ns` empty: of all namespaces.
std::string history_target(const std::string& ns, WallTime now);

// The points with their times in order, those without a start among them; an empty list where
// Prometheus knows nothing of the metric. kInvalid: it refuses the question. kCorrupt: the answer
// is not one of Prometheus.
Result<std::vector<HistoryPoint>> read_history(int status, std::string_view body, WallTime now);

}  // namespace compilecache::cli
