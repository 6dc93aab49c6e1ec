#pragma once

#include <algorithm>

#include "base/clock.hpp"

// The earlier of two times to reconcile again, where 0 means only when something changes.

namespace compilecache::controller {

inline Duration earliest_requeue(Duration a, Duration b) {
  if (a <= Duration::zero()) return b;
  if (b <= Duration::zero()) return a;
  return std::min(a, b);
}

}  // namespace compilecache::controller
