#pragma once

#include "api/store_ref.hpp"
#include "base/mutex.hpp"

// The installation's own registry as it was found last. Whoever looks for it sets it, everybody
// else reads it. Thread-safe.

namespace compilecache::controller {

class KnownRegistry {
 public:
  // Whether that is another than before.
  bool set(const api::OwnRegistry& found) {
    const MutexLock lock(mutex_);
    if (registry_ == found) return false;
    registry_ = found;
    return true;
  }
  [[nodiscard]] api::OwnRegistry get() const {
    const MutexLock lock(mutex_);
    return registry_;
  }

 private:
  mutable Mutex mutex_;
  api::OwnRegistry registry_ GUARDED_BY(mutex_);
};

}  // namespace compilecache::controller
