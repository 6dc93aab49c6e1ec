#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>

#include "base/clock.hpp"
#include "base/mutex.hpp"

// Keys that wait for a worker. A key is worked on by one worker at a time; a key added while it is
// worked on is worked on once more afterwards; a key added twice before that is worked on once.
//
//   while (auto key = queue.get()) {
//     if (reconcile(*key)) queue.forget(*key); else queue.add_rate_limited(*key);
//     queue.done(*key);
//   }
//
// What happens now goes before what was there at the start (Priority::kStart). Of several adds of a
// key that waits the highest priority and the shortest delay count.
//
// Rules and numbers: client-go's util/workqueue and controller-runtime's priority queue.
// Thread-safe.

namespace compilecache::kube {

struct WorkQueueOptions {
  // Of a key that fails again and again: 5 ms, 10 ms, 20 ms ... 1000 s.
  Duration failure_first = std::chrono::milliseconds(5);
  Duration failure_cap = std::chrono::seconds(1000);
  // Of all rate-limited adds together.
  double bucket_per_second = 10;
  double bucket_burst = 100;
};

enum class Priority { kStart, kLive };

class WorkQueue {
 public:
  explicit WorkQueue(WorkQueueOptions options = {}, const Clock& clock = SystemClock::instance());

  void add(const std::string& key, Priority priority = Priority::kLive);
  // Not before that time has gone by.
  void add_after(const std::string& key, Duration delay, Priority priority = Priority::kLive);
  // After the longer of the key's own delay and the common bucket's; while it is worked on, with
  // the priority that it came with.
  void add_rate_limited(const std::string& key);
  // The key did well: its next failure begins with the short delay.
  void forget(const std::string& key);
  [[nodiscard]] int failures(const std::string& key) const;

  // The next key, waiting for one; nothing after shut_down() when the queue is empty.
  // Every key got must be given back with done().
  std::optional<std::string> get();
  void done(const std::string& key);

  // No key is taken any more and delayed ones are dropped; workers get what is queued, then
  // nothing.
  void shut_down();
  [[nodiscard]] size_t size() const;  // queued and due

 private:
  struct Delayed {
    Monotonic due;
    Priority priority;
  };

  void add_locked(const std::string& key, Priority priority) REQUIRES(mutex_);
  void add_after_locked(const std::string& key, Duration delay, Priority priority) REQUIRES(mutex_);
  void push_locked(const std::string& key, Priority priority) REQUIRES(mutex_);
  void move_due_locked() REQUIRES(mutex_);
  std::optional<std::string> pop_locked() REQUIRES(mutex_);
  Duration bucket_delay_locked() REQUIRES(mutex_);

  const WorkQueueOptions options_;
  const Clock& clock_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<std::string> live_ GUARDED_BY(mutex_);
  std::deque<std::string> start_ GUARDED_BY(mutex_);  // may also hold keys that have moved to live_
  std::map<std::string, Priority> dirty_
      GUARDED_BY(mutex_);  // waits, or is to be worked on once more
  std::map<std::string, Priority> processing_ GUARDED_BY(mutex_);
  std::map<std::string, Delayed> delays_ GUARDED_BY(mutex_);
  std::set<std::pair<Monotonic, std::string>> by_time_ GUARDED_BY(mutex_);
  std::unordered_map<std::string, int> failures_ GUARDED_BY(mutex_);
  double tokens_ GUARDED_BY(mutex_);
  Monotonic tokens_at_ GUARDED_BY(mutex_);
  bool shutting_down_ GUARDED_BY(mutex_) = false;
};

}  // namespace compilecache::kube
