#pragma once

#include <algorithm>
#include <chrono>

#include "base/mutex.hpp"

namespace compilecache {

// The time by which calls have to be over, which may become known while they are under way. At
// first there is none.
//
//   Cutoff cutoff;
//   cutoff.set(std::chrono::steady_clock::now() + std::chrono::seconds(14));  // on any thread
//   if (!cutoff.sleep(pause)) return fail(ErrorCode::kCancelled, "its time is up");
//
// Thread-safe.
class Cutoff {
 public:
  using Time = std::chrono::steady_clock::time_point;

  void set(Time at) {
    const MutexLock lock(mutex_);
    at_ = at;
    changed_.notify_all();
  }
  [[nodiscard]] Time at() const {
    const MutexLock lock(mutex_);
    return at_;
  }
  [[nodiscard]] bool passed() const { return std::chrono::steady_clock::now() >= at(); }

  // True after the whole time, false as soon as the cutoff has passed.
  [[nodiscard]] bool sleep(std::chrono::milliseconds time) const {
    const Time until = std::chrono::steady_clock::now() + time;
    const MutexLock lock(mutex_);
    for (;;) {
      const Time now = std::chrono::steady_clock::now();
      if (now >= at_) return false;
      if (now >= until) return true;
      changed_.wait_until(mutex_, std::min(until, at_));
    }
  }

 private:
  mutable Mutex mutex_;
  mutable CondVar changed_;
  Time at_ GUARDED_BY(mutex_) = Time::max();
};

}  // namespace compilecache
