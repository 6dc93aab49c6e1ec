#include "api/load_budget.hpp"

#include <algorithm>

namespace compilecache::api {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLeastBudget{5'000};

}  // namespace

milliseconds load_budget(milliseconds timeout, double compile_seconds) {
  if (compile_seconds <= 0) return timeout;
  const auto at_most = [&](double seconds) {
    const auto limit = static_cast<double>(timeout.count());
    return milliseconds(static_cast<int64_t>(std::min(seconds * 1000, limit)));
  };
  return std::max(at_most(compile_seconds / 2), std::min(kLeastBudget, at_most(compile_seconds)));
}

}  // namespace compilecache::api
