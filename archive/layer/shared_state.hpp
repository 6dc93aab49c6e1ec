#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>

#include "base/error.hpp"

// What the threads of one read share.

namespace compilecache::archive {

// Wakes the thread that waits for any of the others to have got on. Thread-safe.
//
//   const uint64_t seen = activity.count();
//   if (!something_to_do()) activity.wait(seen, 50ms);
class Activity {
 public:
  [[nodiscard]] uint64_t count() const {
    const std::lock_guard lock(mutex_);
    return count_;
  }
  void notify() {
    {
      const std::lock_guard lock(mutex_);
      ++count_;
    }
    changed_.notify_all();
  }
  void wait(uint64_t seen, std::chrono::milliseconds longest) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, longest, [&] { return count_ != seen; });
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t count_ = 0;
};

// The first failure of any thread. Thread-safe.
class FirstFailure {
 public:
  void set(Error error) {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = std::move(error);
    failed_ = true;
  }
  [[nodiscard]] bool failed() const { return failed_; }
  [[nodiscard]] Status status() const {
    if (!failed_) return {};
    const std::lock_guard lock(mutex_);
    return unexpected(*error_);
  }

 private:
  mutable std::mutex mutex_;
  std::optional<Error> error_;
  std::atomic<bool> failed_ = false;
};

}  // namespace compilecache::archive
