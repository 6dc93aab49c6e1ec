#include "api/load_budget.hpp"

#include <algorithm>

namespace compilecache::api {
namespace {

using std::chrono::milliseconds;

// What a small archive needs, and what is given to one that saves that much.
constexpr milliseconds kLeast{1'000}, kShort{5'000};

}  // namespace

milliseconds load_budget(milliseconds timeout, double compile_seconds) {
  if (compile_seconds <= 0) return timeout;
  const auto at_most = [&](double seconds) {
    const auto limit = static_cast<double>(timeout.count());
    return milliseconds(static_cast<int64_t>(std::min(seconds * 1000, limit)));
  };
  const milliseconds whole = std::clamp(at_most(compile_seconds), kLeast, kShort);
  return std::min(timeout, std::max(at_most(compile_seconds / 2), whole));
}

}  // namespace compilecache::api
