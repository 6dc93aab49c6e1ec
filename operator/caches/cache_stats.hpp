#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "api/compile_cache.hpp"
#include "api/outcomes.hpp"
#include "operator/pods/pod_ledger.hpp"

// What the leader has seen pods do, added up for each CompileCache: the counters, the recent pods,
// the time saved, the owners of files and the condemned digests of its status. Everything is in
// memory; the status is its backup.
//
//   CacheStats stats(settings.limits.recent_pods, pods);
//   stats.on_change([&](const std::string& cache) { queue.add_after(cache, interval); });
//   stats.seed("ml/transformer", cache->status);  // a new leader takes over what the status says
//   stats.loaded("ml/transformer", {...});
//   api::CompileCacheStatus status = cache->status;
//   stats.fill("ml/transformer", status);  // then the caller writes it, at a bounded rate
//
// A CompileCache that was never seeded counts from zero and fill() leaves its status alone, so that
// a leader that has not read the status yet cannot wipe it out; what was counted before seed() is
// added to it. What each pod counts for is in the ledger, whose lock it takes with its own held.
// Thread-safe. on_change runs in the reporting thread after the change; it must be quick.

namespace compilecache::controller {

// A loader's report, as far as the status tells it.
struct LoadSeen {
  std::string pod, pod_uid, node, gpu_product, archive;
  api::LoadOutcome load = api::LoadOutcome::kMissing;
  int64_t milliseconds = 0;
  std::string reason;  // why not, one word
  std::string time;    // RFC 3339
  // What else the status tells of it.
  api::ArchiveKey key;
  int64_t generation = 0, wait_milliseconds = 0, ask_milliseconds = 0, bytes = 0;
  std::string wait_reason, message;
  double compile_seconds = 0;  // that were spent on what it loaded
};

// A saver's verdict on what was loaded; each pod has one, the latest.
struct EffectSeen {
  std::string pod, pod_uid, node, gpu_product;
  api::Effect effect = api::Effect::kUnknown;
  std::string reason;
  double seconds_saved = 0;  // by this pod, as far as known now
  std::string time;
};

// What a pod counts for now, to be taken back when it changes its mind. In the ledger.
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
  // last_sweep, seconds_saved, condemned, crashing, file_owners. The rest is the caller's. Nothing
  // happens before seed().
  void fill(const std::string& cache, api::CompileCacheStatus& status) const;
  // The CompileCache is gone, or we are no leader any more.
  void forget(const std::string& cache);

  void loaded(const std::string& cache, const LoadSeen& seen);
  // Moves the pod from the effect it was counted under to this one; returns the former and the
  // archive that the pod loaded.
  struct EffectMove {
    std::optional<api::Effect> before;
    std::string archive;
  };
  EffectMove effect(const std::string& cache, const EffectSeen& seen);
  // A pod that nothing is known of was counted under that effect by an earlier leader.
  void recall(const std::string& cache, const std::string& pod_uid, api::Effect counted);
  // More about a pod whose load was reported and that is still among the recent ones; nothing is
  // counted.
  void update_recent(const std::string& cache, const std::string& pod_uid,
                     const RecentChange& change);
  // `time` is that of a commit and becomes last_save_time.
  void saved(const std::string& cache, api::SaveOutcome seen, const std::string& time);
  // Archives that collection has thrown away; they count for the sweep that reports next.
  void archives_removed(const std::string& cache, int64_t count);
  // removed_archives is filled in here.
  void swept(const std::string& cache, api::LastSweep sweep);
  void set_condemned(const std::string& cache, std::vector<api::CondemnedBlob> condemned);
  [[nodiscard]] std::vector<api::CondemnedBlob> condemned(const std::string& cache) const;
  // Manifests that made pods crash, the last 32: also after their archive was saved anew or
  // deleted, since pods that hold what they hold may still run.
  void add_crashing(const std::string& cache, const std::string& manifest);
  void remove_crashing(const std::string& cache, const std::string& manifest);
  [[nodiscard]] std::vector<std::string> crashing(const std::string& cache) const;

  // Only that user can read files that a pod of the image left. False: that was known.
  bool note_owner(const std::string& cache, const std::string& image, int64_t user,
                  const std::string& time);
  // Pods that ran our container as such a user were not admitted: none is given any more. False:
  // there was none.
  bool refuse_owners(const std::string& cache);

  // The archive that a running pod loaded; empty: none that is known of.
  [[nodiscard]] std::string archive_of(const std::string& cache, const std::string& pod_uid) const;
  // What a pod counts for, and which generation it loaded; 0: not known.
  [[nodiscard]] double seconds_of(const std::string& cache, const std::string& pod_uid) const;
  [[nodiscard]] int64_t generation_of(const std::string& cache, const std::string& pod_uid) const;
  // How long others compiled what a running pod loaded; nothing when that is not known.
  [[nodiscard]] std::optional<double> worth_of(const std::string& cache,
                                               const std::string& pod_uid) const;
  // What became of a running pod's load; nothing when it did not report.
  [[nodiscard]] std::optional<api::LoadOutcome> load_of(const std::string& cache,
                                                        const std::string& pod_uid) const;
  // Archives that pods loaded which are still there: not to be collected.
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
  mutable std::mutex mutex_;
  std::map<std::string, Entry> entries_;
};

}  // namespace compilecache::controller
