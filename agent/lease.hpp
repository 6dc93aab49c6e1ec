#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "agent/coordinator.hpp"

namespace compilecache::agent {

// Holds a save's lock by renewing it from a thread of its own, every third of the lock's time-out.
// A renewal that meets nobody (the leader changes) is tried again and does not end the save: a
// commit with an old fence cannot succeed anyway. Ends its thread in the destructor, without
// releasing the lock.
class Lease {
 public:
  // `coordinator` and `answer` must outlive it.
  Lease(Coordinator& coordinator, const api::SaveAnswer& answer);
  ~Lease();
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  // Somebody else has the lock, or the operator no longer wants this save.
  [[nodiscard]] bool lost() const { return lost_; }

 private:
  void keep();

  Coordinator& coordinator_;
  const api::SaveAnswer& answer_;
  std::atomic<bool> lost_{false};
  std::mutex mutex_;
  std::condition_variable ended_;
  bool end_ = false;
  std::thread thread_;
};

}  // namespace compilecache::agent
