#include "api/load_budget.hpp"

#include <algorithm>

namespace compilecache::api {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLeastBudget{5'000};

}  // namespace

milliseconds load_budget(milliseconds timeout, double compile_seconds) {
  if (compile_seconds <= 0) return timeout;
  const double half = std::min(compile_seconds * 500, static_cast<double>(timeout.count()));
  return std::min(timeout, std::max(kLeastBudget, milliseconds(static_cast<int64_t>(half))));
}

}  // namespace compilecache::api
