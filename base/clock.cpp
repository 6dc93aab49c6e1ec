#include "base/clock.hpp"

namespace compilecache {

Monotonic SystemClock::monotonic() const { return std::chrono::steady_clock::now(); }
WallTime SystemClock::wall() const { return std::chrono::system_clock::now(); }

const SystemClock& SystemClock::instance() {
  static const SystemClock clock;
  return clock;
}

FakeClock::FakeClock(WallTime start) : monotonic_(std::chrono::hours(1)), wall_(start) {}

Monotonic FakeClock::monotonic() const {
  const MutexLock lock(mutex_);
  return monotonic_;
}

WallTime FakeClock::wall() const {
  const MutexLock lock(mutex_);
  return wall_;
}

void FakeClock::advance(Duration by) {
  const MutexLock lock(mutex_);
  monotonic_ += std::chrono::duration_cast<Monotonic::duration>(by);
  wall_ += std::chrono::duration_cast<WallTime::duration>(by);
}

}  // namespace compilecache
