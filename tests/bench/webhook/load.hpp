#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

// The load generator: HTTPS requests that are all the same, over connections that are kept, from
// one thread. An answer counts when its status is 200 and it carries a patch.

namespace compilecache::bench {

struct LoadResult {
  size_t answers = 0;
  size_t failures = 0;  // no answer, or one without a patch
  double seconds = 0;
  std::vector<double> milliseconds;  // of each answer, sorted

  [[nodiscard]] double per_second() const { return static_cast<double>(answers) / seconds; }
  [[nodiscard]] double percentile(double part) const;
};

// Each connection sends the next request when it has its answer.
LoadResult closed_loop(uint16_t port, const std::string& body, int connections, double seconds);

// Sends at that rate, whether or not answers came; a request's time counts from when it was due, so
// that a slow answer is also seen in those that had to wait for it.
LoadResult open_loop(uint16_t port, const std::string& body, int rate, double seconds);

// Whether one request on a connection of its own gets its answer with a patch.
bool answers(uint16_t port, const std::string& body);

}  // namespace compilecache::bench
