#include "api/load_budget.hpp"

#include <algorithm>

namespace compilecache::api {
namespace {

using std::chrono::milliseconds;

// The time that a small archive needs, and the budget of one that saves that much.
constexpr milliseconds kLeast{1'000}, kShort{5'000};
// Where nobody knows what an archive saves: large ones took long to compile.
constexpr milliseconds kUnknown{10'000};
constexpr int64_t kBytesForAMillisecond = 50'000;

}  // namespace

milliseconds load_budget(milliseconds timeout, double compile_seconds, int64_t compressed_bytes) {
  if (compile_seconds <= 0) {
    const milliseconds for_size(std::max<int64_t>(0, compressed_bytes) / kBytesForAMillisecond);
    return std::min(timeout, kUnknown + for_size);
  }
  const auto at_most = [&](double seconds) {
    const auto limit = static_cast<double>(timeout.count());
    return milliseconds(static_cast<int64_t>(std::min(seconds * 1000, limit)));
  };
  const milliseconds whole = std::clamp(at_most(compile_seconds), kLeast, kShort);
  return std::min(timeout, std::max(at_most(compile_seconds / 2), whole));
}

}  // namespace compilecache::api
