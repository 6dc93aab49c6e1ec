#pragma once

#include <utility>

#include "base/mutex.hpp"

// The last known state of something that may change, such as a Service. Its watcher sets it,
// everybody else reads it. Thread-safe.
//
//   Known<api::OwnRegistry> registry;
//   if (registry.set(found)) tell(found);

namespace compilecache::controller {

template <typename T>
class Known {
 public:
  // Whether that is another than before.
  bool set(T found) {
    const MutexLock lock(mutex_);
    if (found_ == found) return false;
    found_ = std::move(found);
    return true;
  }
  [[nodiscard]] T get() const {
    const MutexLock lock(mutex_);
    return found_;
  }

 private:
  mutable Mutex mutex_;
  T found_ GUARDED_BY(mutex_);
};

}  // namespace compilecache::controller
