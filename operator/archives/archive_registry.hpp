#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/compile_cache_archive.hpp"
#include "api/outcomes.hpp"
#include "base/clock.hpp"
#include "base/mutex.hpp"
#include "operator/archives/archive_client.hpp"
#include "operator/archives/crash_watch.hpp"

// Keeps the rest of the archives' status up to date, besides lock and head: use, counters and
// trust.
//
//   ArchiveRegistry registry(archives, settings.status_interval, clock);
//   registry.loaded("ml", "transformer-3f9a1c04b2", api::Match::kExact);
//   registry.flush();          // each second, by the leader's session alone; writes what is due
//   registry.suspect("ml", "transformer-3f9a1c04b2", digest, "web-1");   // at once
//
// Use and counters are collected here and written at most once in an interval for each archive; a
// crash loses a few seconds of them. Thread-safe; all but loaded(), effect() and ranks() block on
// the API server.

namespace compilecache::controller {

class ArchiveRegistry {
 public:
  ArchiveRegistry(ArchiveClient& archives, std::chrono::milliseconds interval, const Clock& clock);

  void loaded(const std::string& ns, const std::string& archive, api::Match match);
  // A pod's effect, and the one that it reported before.
  void effect(const std::string& ns, const std::string& archive, std::optional<api::Effect> before,
              api::Effect now);
  // Which ranks' folders a pod has used so far that has this place in its group (rank_records.hpp).
  void ranks(const std::string& ns, const std::string& archive, const std::string& member,
             const std::string& pod_uid, const std::vector<std::string>& directories);

  // Marks the archive as suspect (archive_trust.hpp). True where it was not yet suspect because of
  // that digest.
  Result<bool> suspect(const std::string& ns, const std::string& archive, const std::string& digest,
                       const std::string& reported_by);
  // Marks the archive as suspect because pods that loaded the blamed manifest crashed, or clears
  // that mark (crash_watch.hpp). True where this is new.
  Result<bool> crashing(const api::CompileCacheArchive& archive, const Blame& blame);
  Result<bool> acquitted(const api::CompileCacheArchive& archive);
  // A sweep Job has read that manifest's blobs and found them whole, or corrupt.
  Status verified(const api::CompileCacheArchive& archive, const std::string& manifest);
  Status corrupt(const api::CompileCacheArchive& archive, const std::string& manifest);

  // Writes what is due; with `all`, everything that is not written yet.
  void flush(bool all = false);

 private:
  struct Pending {
    api::LoadCounters loads;
    api::EffectCounters effect;  // differences; may be negative
    std::string last_used;
    // By place and pod: the latest report of each, since that has the earlier ones in it.
    std::map<std::pair<std::string, std::string>, std::vector<std::string>> ranks;
    bool dirty = false;
    Monotonic not_before{};
  };
  static void apply(const Pending& pending, api::CompileCacheArchive& archive);
  bool is_written(const api::CompileCacheArchive& wanted);
  void put_back(const std::string& key, const Pending& pending);

  ArchiveClient& archives_;
  const std::chrono::milliseconds interval_;
  const Clock& clock_;
  Mutex mutex_;
  std::map<std::string, Pending> pending_ GUARDED_BY(mutex_);  // by "namespace/archive"
};

}  // namespace compilecache::controller
