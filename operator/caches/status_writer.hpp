#pragma once

#include <atomic>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "api/compile_cache.hpp"
#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/mutex.hpp"
#include "kube/client.hpp"

// Writes the status of CompileCaches: only what has changed, and each at most once in an interval,
// however many reports come in. Only the uid of our sweep Job is written at once.
//
//   auto wait = writer.write(cache, status);
//   if (!wait) ...                      // kConflict: the object has changed, read it again
//   if (*wait > Duration::zero()) queue.add_after(key, *wait);   // it is too early to write
//
// A write is a compare-and-swap on the resource version that `cache` carries. Thread-safe.

namespace compilecache::controller {

class StatusWriter {
 public:
  StatusWriter(kube::Client client, Duration interval, const Clock& clock);

  Result<Duration> write(const api::CompileCache& cache, const api::CompileCacheStatus& status);
  // Writes only the conditions, of an object whose other status is not known.
  Result<Duration> write_conditions(const api::CompileCache& cache,
                                    const std::vector<api::Condition>& conditions);
  void forget(const std::string& cache);
  // Writes every change at once from now on, since the process is about to end.
  void flush_immediately() { flush_immediately_ = true; }

 private:
  Result<Duration> patch(const api::CompileCache& cache, nlohmann::json status, bool at_once);
  Duration left(const std::string& cache) const;

  const kube::Client client_;
  const Duration interval_;
  const Clock& clock_;
  std::atomic<bool> flush_immediately_{false};
  mutable Mutex mutex_;
  std::map<std::string, Monotonic> written_ GUARDED_BY(mutex_);  // "namespace/name" to when
};

}  // namespace compilecache::controller
