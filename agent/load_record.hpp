#pragma once

#include <chrono>

// The result of a pod's load, for a container that loads and saves (delivery Sidecar), in a
// directory that no other container mounts. An application must not be able to make a restarted
// sidecar load once more. Internal to compilecache-supervise; no heap.
//
// Files: `lock`, held (flock) by the working process and by all processes that it has started;
// `loading`, a load was begun; `over`, it is done, for as long as the node's kernel runs. An
// emptyDir outlives a power failure, and its files may be torn then. Not thread-safe.

namespace compilecache::agent {

class LoadRecord {
 public:
  // Must exist; where it does not, nothing can be begun.
  explicit LoadRecord(const char* directory);

  enum class State { kNone, kBegun, kOver };
  [[nodiscard]] State state() const;

  // Takes the lock, which this process then keeps until leave() or its end. False: it could not be
  // had within that time, or not at all.
  bool enter(std::chrono::milliseconds limit);
  void leave();
  // Notes that a load begins, before it does. False: it cannot be noted, and so must not begin.
  bool begin();
  // Notes that it is over.
  bool end();

 private:
  [[nodiscard]] bool is_of_this_boot(const char* file) const;

  int directory_ = -1, lock_ = -1;
  char boot_id_[64] = {};
  size_t boot_id_length_ = 0;
};

}  // namespace compilecache::agent
