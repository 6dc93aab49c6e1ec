#include "operator/archives/cache_locks.hpp"

namespace compilecache::controller {

CacheLocks::Guard CacheLocks::lock(const std::string& cache) {
  std::shared_ptr<std::mutex> mutex;
  {
    const MutexLock guard(mutex_);
    std::shared_ptr<std::mutex>& slot = mutexes_[cache];
    if (slot == nullptr) slot = std::make_shared<std::mutex>();
    mutex = slot;
  }
  std::unique_lock held(*mutex);
  return {std::move(mutex), std::move(held)};
}

}  // namespace compilecache::controller
