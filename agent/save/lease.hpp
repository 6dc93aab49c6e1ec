#pragma once

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "agent/coordinator.hpp"
#include "base/mutex.hpp"

namespace compilecache::agent {

// Holds a save's lock by renewing it from a thread of its own, every third of the lock's timeout. A
// renewal that nobody answers (the leader is changing) is tried again and does not end the save: a
// commit with an old fence cannot succeed anyway. When the save has hung for long (its volume does
// not answer) the lock is given up, so that pods on other nodes can save. The destructor ends the
// thread without releasing the lock.
class Lease {
 public:
  // One fsync of a large archive on a slow volume takes minutes.
  static constexpr std::chrono::milliseconds kLongestHang{600'000};

  // `coordinator` and `answer` must outlive it.
  Lease(Coordinator& coordinator, const api::SaveAnswer& answer,
        std::chrono::milliseconds longest_hang = kLongestHang);
  ~Lease();
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  // Whether another pod has the lock or may have it, or the operator no longer accepts this save.
  [[nodiscard]] bool lost() const { return lost_; }
  // Call it whenever the save makes progress, from any thread.
  void got_on() { got_on_ = true; }

 private:
  void keep();
  bool hangs();

  Coordinator& coordinator_;
  const api::SaveAnswer& answer_;
  const std::chrono::milliseconds longest_hang_;
  std::atomic<bool> lost_{false}, got_on_{true};
  std::chrono::steady_clock::time_point got_on_at_;  // of the thread
  Mutex mutex_;
  CondVar ended_;
  bool end_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace compilecache::agent
