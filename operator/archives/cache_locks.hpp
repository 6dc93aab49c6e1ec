#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/mutex.hpp"

namespace compilecache::controller {

// One mutex for each CompileCache ("namespace/name"). Commits and a sweep's decisions lock it, so
// that no decision falls between a commit's check and its write. Thread-safe.
class CacheLocks {
 public:
  // A std::mutex each: what it keeps in order is in the API server and no member, so that there is
  // nothing for the thread-safety analysis to check.
  using Guard = std::pair<std::shared_ptr<std::mutex>, std::unique_lock<std::mutex>>;
  [[nodiscard]] Guard lock(const std::string& cache);

 private:
  Mutex mutex_;
  std::map<std::string, std::shared_ptr<std::mutex>> mutexes_ GUARDED_BY(mutex_);
};

}  // namespace compilecache::controller
