#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

#include "base/error.hpp"
#include "base/mutex.hpp"

// State that the threads of one read share.

namespace compilecache::archive {

// Wakes the thread that waits for progress of any other thread. Thread-safe.
//
//   const uint64_t seen = activity.count();
//   if (!something_to_do()) activity.wait(seen, 50ms);
class Activity {
 public:
  [[nodiscard]] uint64_t count() const {
    const MutexLock lock(mutex_);
    return count_;
  }
  void notify() {
    {
      const MutexLock lock(mutex_);
      ++count_;
    }
    changed_.notify_all();
  }
  void wait(uint64_t seen, std::chrono::milliseconds longest) {
    const MutexLock lock(mutex_);
    changed_.wait_for(mutex_, longest, [&]() REQUIRES(mutex_) { return count_ != seen; });
  }

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  uint64_t count_ GUARDED_BY(mutex_) = 0;
};

// The first failure of any thread. Thread-safe.
class FirstFailure {
 public:
  void set(Error error) {
    const MutexLock lock(mutex_);
    if (!error_) error_ = std::move(error);
    failed_ = true;
  }
  [[nodiscard]] bool failed() const { return failed_; }
  [[nodiscard]] Status status() const {
    if (!failed_) return {};
    const MutexLock lock(mutex_);
    return unexpected(*error_);
  }

 private:
  mutable Mutex mutex_;
  std::optional<Error> error_ GUARDED_BY(mutex_);
  std::atomic<bool> failed_ = false;
};

}  // namespace compilecache::archive
