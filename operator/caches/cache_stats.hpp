#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "api/compile_cache.hpp"
#include "api/outcomes.hpp"
#include "base/mutex.hpp"
#include "operator/pods/pod_ledger.hpp"

// Statistics that the leader keeps for each CompileCache: the counters, the recent pods, the time
// saved, the owners of files and the condemned digests of its status. Everything is in memory; the
// status is the backup.
//
//   CacheStats stats(settings.limits.recent_pods, pods);
//   stats.on_change([&](const std::string& key) { queue.add_after(key, interval); });
//   stats.seed("ml/transformer", cache->status);  // a new leader takes over what the status says
//   stats.loaded("ml/transformer", {...});
//   api::CompileCacheStatus status = cache->status;
//   stats.fill("ml/transformer", status);  // then the caller writes it, at a bounded rate
//
// Before seed() a CompileCache counts from zero and fill() leaves its status alone. So a leader
// that has not read the status yet cannot overwrite it; seed() adds the earlier counts. The ledger
// has the counts of each pod; its lock is taken with this one's held. Thread-safe. on_change runs
// in the reporting thread after the change; it must be quick.

namespace compilecache::controller {

// A loader's report, as far as it goes into the status.
struct LoadSeen {
  std::string pod, pod_uid, node, gpu_product, archive;
  api::LoadOutcome load = api::LoadOutcome::kMissing;
  int64_t milliseconds = 0;
  std::string reason;  // why not, one word
  std::string time;    // RFC 3339
  // Further details for status.recent.
  api::ArchiveKey key;
  int64_t generation = 0, wait_milliseconds = 0, ask_milliseconds = 0, bytes = 0;
  std::string wait_reason, message;
  double compile_seconds = 0;  // that were spent on compiling what it loaded
};

// The effect that a saver has reported; the latest one of each pod counts.
struct EffectSeen {
  std::string pod, pod_uid, node, gpu_product;
  api::Effect effect = api::Effect::kUnknown;
  std::string reason;
  double seconds_saved = 0;  // by this pod, as far as known now
  std::string time;
};

// A pod's present counts, to be taken back when they change. In the ledger.
struct CountedPod {
  std::string cache;  // "namespace/name", whose counters these are
  std::optional<api::LoadOutcome> load;
  std::string archive;
  std::optional<api::Effect> effect;
  double seconds_saved = 0;
  std::optional<double> worth;  // of what it loaded
  int64_t generation = 0;       // of it
};

class CacheStats {
 public:
  using ChangeHandler = std::function<void(const std::string& cache)>;
  using RecentChange = std::function<void(api::RecentPod&)>;

  // At most `recent_limit` pods are in status.recent.
  CacheStats(size_t recent_limit, PodLedger& pods);

  // Set once, before other threads come.
  void on_change(ChangeHandler handler);

  // `cache` is always "namespace/name". A second call for a CompileCache does nothing until
  // forget(). The controller alone calls it: for all there are when it takes over, for each that
  // comes later when it first meets it.
  void seed(const std::string& cache, const api::CompileCacheStatus& status);
  // Replaces the counters etc. in `status`: loads, effect, saves, recent, last_save_time,
  // last_sweep, last_copy, seconds_saved, condemned, crashing, file_owners. Leaves the rest to the
  // caller. Does nothing before seed().
  void fill(const std::string& cache, api::CompileCacheStatus& status) const;
  // The CompileCache was deleted, or we are no leader any more.
  void forget(const std::string& cache);

  void loaded(const std::string& cache, const LoadSeen& seen);
  // Counts the pod under this effect instead of the one before; returns that one and the archive
  // that the pod loaded.
  struct EffectMove {
    std::optional<api::Effect> before;
    std::string archive;
  };
  EffectMove effect(const std::string& cache, const EffectSeen& seen);
  // A previous leader has counted this pod, of which nothing is known here, under that effect.
  void recall(const std::string& cache, const std::string& pod_uid, api::Effect counted);
  // Changes a pod's line in status.recent, where it still has one. Counts nothing.
  void update_recent(const std::string& cache, const std::string& pod_uid,
                     const RecentChange& change);
  // `time` is the time of a commit and becomes last_save_time.
  void saved(const std::string& cache, api::SaveOutcome seen, const std::string& time);
  // Archives that were collected; they count for the next sweep that reports.
  void archives_removed(const std::string& cache, int64_t count);
  // removed_archives is filled in from archives_removed().
  void swept(const std::string& cache, api::LastSweep sweep);
  void copied(const std::string& cache, api::LastCopy copy);
  void set_condemned(const std::string& cache, std::vector<api::CondemnedBlob> condemned);
  [[nodiscard]] std::vector<api::CondemnedBlob> condemned(const std::string& cache) const;
  // The last 32 manifests that made pods crash. They are kept after their archive was saved again
  // or deleted, since pods that loaded them may still run.
  void add_crashing(const std::string& cache, const std::string& manifest);
  void remove_crashing(const std::string& cache, const std::string& manifest);
  [[nodiscard]] std::vector<std::string> crashing(const std::string& cache) const;

  // Notes that only this user can read files of the image's pods. False where that was known.
  bool note_owner(const std::string& cache, const std::string& image, int64_t user,
                  const std::string& time);
  // Notes that pods whose saver ran as such a user were not admitted: no user is given any more.
  // False where there was none.
  bool refuse_owners(const std::string& cache);

  // The archive that a running pod loaded; empty: none is known.
  [[nodiscard]] std::string archive_of(const std::string& cache, const std::string& pod_uid) const;
  // The seconds that a pod is counted to have saved, and the generation that it loaded; 0: not
  // known.
  [[nodiscard]] double seconds_of(const std::string& cache, const std::string& pod_uid) const;
  [[nodiscard]] int64_t generation_of(const std::string& cache, const std::string& pod_uid) const;
  // How many seconds others spent compiling what a running pod loaded; nothing when that is not
  // known.
  [[nodiscard]] std::optional<double> worth_of(const std::string& cache,
                                               const std::string& pod_uid) const;
  // The outcome of a running pod's load; nothing when it did not report.
  [[nodiscard]] std::optional<api::LoadOutcome> load_of(const std::string& cache,
                                                        const std::string& pod_uid) const;
  // Archives that the pods in `alive` loaded: they must not be collected.
  [[nodiscard]] std::set<std::string> archives_in_use(const std::string& cache,
                                                      const std::set<std::string>& alive) const;

 private:
  struct Entry {
    bool seeded = false;
    api::CompileCacheStatus totals;
    double seconds_saved = 0;
    int64_t removed_archives = 0;  // since the last sweep
  };

  enum class Missing { kAdd, kLeave };
  // One that is counted elsewhere, or nowhere, counts for nothing here.
  [[nodiscard]] CountedPod pod_of(const std::string& cache, const std::string& pod_uid) const;
  // Changes its line among the recent pods; false when nothing is different.
  bool revise(Entry& entry, const std::string& pod_uid, Missing missing,
              const RecentChange& change) const;
  static void add_crashing(std::vector<std::string>& known, const std::string& manifest);
  void set_recent(Entry& entry, std::vector<api::RecentPod> recent) const;
  void changed(const std::string& cache) const;

  const size_t recent_limit_;
  PodLedger& pods_;
  ChangeHandler on_change_;
  mutable Mutex mutex_;
  std::map<std::string, Entry> entries_ GUARDED_BY(mutex_);
};

}  // namespace compilecache::controller
