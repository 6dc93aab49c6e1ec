#pragma once

#include <chrono>

#include "base/mutex.hpp"

// Time, injected so that tests decide what it is.

namespace compilecache {

using Monotonic = std::chrono::steady_clock::time_point;
using WallTime = std::chrono::system_clock::time_point;
using Duration = std::chrono::nanoseconds;

// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  // The clock for intervals, timeouts and lock expiry; it never goes back.
  [[nodiscard]] virtual Monotonic monotonic() const = 0;
  // The clock for times that people read or that are compared with file times and API timestamps.
  [[nodiscard]] virtual WallTime wall() const = 0;
};

class SystemClock : public Clock {
 public:
  [[nodiscard]] Monotonic monotonic() const override;
  [[nodiscard]] WallTime wall() const override;
  // The one instance that a program needs; it is never destroyed.
  static const SystemClock& instance();
};

// A clock for tests: both times advance together, by advance() alone.
class FakeClock : public Clock {
 public:
  explicit FakeClock(WallTime start = WallTime(std::chrono::hours(24 * 365 * 50)));
  [[nodiscard]] Monotonic monotonic() const override;
  [[nodiscard]] WallTime wall() const override;
  void advance(Duration by);

 private:
  mutable Mutex mutex_;
  Monotonic monotonic_ GUARDED_BY(mutex_);
  WallTime wall_ GUARDED_BY(mutex_);
};

}  // namespace compilecache
