#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace compilecache::controller {

// One mutex for each CompileCache ("namespace/name"). Commits and a sweep's decisions lock it, so
// that no decision falls between a commit's check and its write. Thread-safe.
class CacheLocks {
 public:
  using Guard = std::pair<std::shared_ptr<std::mutex>, std::unique_lock<std::mutex>>;
  [[nodiscard]] Guard lock(const std::string& cache);

 private:
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<std::mutex>> mutexes_;
};

}  // namespace compilecache::controller
