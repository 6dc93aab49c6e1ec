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

// A queue of keys for workers. One worker at a time works on a key. A key added meanwhile is worked
// on once more afterwards. A key added twice before that is worked on once.
//
//   while (auto key = queue.get()) {
//     if (reconcile(*key)) queue.forget(*key); else queue.add_rate_limited(*key);
//     queue.done(*key);
//   }
//
// Changes (Priority::kLive) go before objects that existed at the start (Priority::kStart). When a
// waiting key is added again, the highest priority and the shortest delay count.
//
// Rules and numbers: client-go's util/workqueue and controller-runtime's priority queue.
// Thread-safe.

namespace compilecache::kube {

struct WorkQueueOptions {
  // The delays of a key that fails again and again: 5 ms, 10 ms, 20 ms ... 1000 s.
  Duration failure_first = std::chrono::milliseconds(5);
  Duration failure_cap = std::chrono::seconds(1000);
  // The token bucket that all rate-limited adds share.
  double bucket_per_second = 10;
  double bucket_burst = 100;
};

enum class Priority { kStart, kLive };

class WorkQueue {
 public:
  explicit WorkQueue(WorkQueueOptions options = {}, const Clock& clock = SystemClock::instance());

  void add(const std::string& key, Priority priority = Priority::kLive);
  // Adds the key when that time has passed.
  void add_after(const std::string& key, Duration delay, Priority priority = Priority::kLive);
  // Adds the key after the longer of its own delay and the common bucket's. A key that is being
  // worked on keeps its priority.
  void add_rate_limited(const std::string& key);
  // The key succeeded: its next failure starts with the shortest delay again.
  void forget(const std::string& key);
  [[nodiscard]] int failures(const std::string& key) const;

  // Waits for the next key; returns nothing after shut_down() when the queue is empty. Each key
  // must be given back with done().
  std::optional<std::string> get();
  void done(const std::string& key);

  // From now on no key is accepted, and delayed ones are dropped; workers get what is queued, then
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
