#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "api/agent_api.hpp"
#include "api/compile_cache.hpp"
#include "base/clock.hpp"
#include "base/mutex.hpp"
#include "base/random.hpp"
#include "operator/archives/archive_client.hpp"
#include "operator/archives/cache_locks.hpp"
#include "operator/archives/fair_places.hpp"
#include "operator/archives/save_rules.hpp"
#include "operator/archives/sweep_guard.hpp"

// Saves never collide: at most one pod holds the lock of an archive, and only the holder's commit
// succeeds.
//
//   SaveCoordinator saves(archives, locks, guard, 50, clock, random);
//   auto answer = saves.request(context, request);          // granted: id, fence, parent
//   saves.renew(ns, pod_uid, answer->id, answer->fence, lock_timeout);   // at a third of it
//   auto head = saves.commit(context, answer->id, commit);  // kConflict: the lock was lost
//
// The lock is in the archive's status: holder ("<pod uid>/<nonce>") and fence, a number that only
// grows. Lock and head change in one compare-and-swap on the status, so a commit with an old fence
// cannot succeed whatever this object believes. Only the time of each holder's last renewal is kept
// here, by the monotonic clock; a new leader starts with nothing and gives each holder that it
// finds one full timeout.
//
// A save's id is "<archive>.<fence>", so any leader understands it. A commit whose answer was lost
// may be sent again and is answered the same. Thread-safe; calls block on the API server. Grants,
// commits and releases of one CompileCache run one after another, see cache_locks.hpp.

namespace compilecache::controller {

struct Committed {
  api::CommitAnswer answer;
  bool repeated = false;  // it was committed before, and the answer was lost
};

class SaveCoordinator {
 public:
  // `max_concurrent_saves`: of one store, shared fairly among namespaces.
  SaveCoordinator(ArchiveClient& archives, CacheLocks& locks, const SweepGuard& guard,
                  int max_concurrent_saves, const Clock& clock, Random random);

  // Grants the lock, or says why not: "busy" with a time to ask again, or "refused" for good. An
  // Error means that the API server did not answer.
  Result<api::SaveAnswer> request(const SaveContext& context, const api::SaveRequest& request);

  // kConflict: the lock is lost, the save has to stop. `lock_timeout` is the CompileCache's present
  // setting, for saves that the previous leader has granted.
  Status renew(const std::string& ns, const std::string& pod_uid, const std::string& id,
               int64_t fence, std::chrono::milliseconds lock_timeout);

  // kConflict: the lock is lost, the head has changed, it or a blob has become distrusted, or a
  // blob is being swept. Also kTooLarge and kInvalid.
  Result<Committed> commit(const SaveContext& context, const std::string& id,
                           const api::CommitRequest& request);

  // Releases the lock without a commit. It is no error not to hold it.
  Status release(const std::string& ns, const std::string& cache, const std::string& pod_uid,
                 const std::string& id);

  // A new leader calls this for every archive: its holder, if any, gets one full timeout from now.
  void take_over(const api::CompileCacheArchive& archive, std::chrono::milliseconds lock_timeout);

  // Takes the lock from a holder that has not renewed it for the whole timeout, so that a dead
  // saver's save no longer counts as under way. Returns whether the archive is locked afterwards.
  // The caller holds the CompileCache's mutex.
  Result<bool> break_expired(const api::CompileCacheArchive& archive,
                             std::chrono::milliseconds lock_timeout);

  // Whether a save is under way whose holder has renewed its lock lately.
  [[nodiscard]] bool is_saving(const std::string& ns, const std::string& archive) const;

 private:
  struct Holder {
    int64_t fence = 0;
    std::string pod_uid;
    std::optional<std::string> store;  // its id
    std::chrono::milliseconds timeout{0};
    Monotonic deadline;
    // Blobs that it was asked to write again. A new leader does not know them and makes it ask
    // again.
    std::set<std::string> written_anew{};
  };

  Result<api::CompileCacheArchive> find_or_create(const SaveContext& context);
  Result<api::SaveAnswer> grant(const SaveContext& context, const api::SaveRequest& request,
                                api::CompileCacheArchive archive);
  [[nodiscard]] api::SaveAnswer granted(const SaveContext& context, const api::SaveRequest& request,
                                        const api::CompileCacheArchive& archive) const;
  Status take_over_from(const std::string& ns, const std::string& pod_uid, const std::string& name,
                        int64_t fence, std::chrono::milliseconds lock_timeout);
  Status check_commit(const SaveContext& context, const api::CompileCacheArchive& archive,
                      int64_t fence, const api::CommitRequest& request) const;
  [[nodiscard]] std::set<std::string> written_anew(const std::string& key, int64_t fence) const;
  [[nodiscard]] std::chrono::milliseconds time_left(const api::CompileCacheArchive& archive,
                                                    std::chrono::milliseconds lock_timeout);
  [[nodiscard]] std::optional<api::SaveAnswer> wait_for_place(const std::string& key,
                                                              const SaveContext& context);
  void leave_place(const std::string& key, const SaveContext& context);
  void hold_place(const std::string& key, const Holder& holder) REQUIRES(mutex_);
  void note(const std::string& key, Holder holder);
  void forget(const std::string& key, int64_t fence);
  api::SaveAnswer busy(const std::string& reason, std::chrono::milliseconds at_most) const;

  ArchiveClient& archives_;
  CacheLocks& locks_;
  const SweepGuard& guard_;
  const Clock& clock_;
  const Random random_;
  mutable Mutex mutex_;
  FairPlaces places_ GUARDED_BY(mutex_);                      // held under "namespace/archive"
  std::map<std::string, Holder> holders_ GUARDED_BY(mutex_);  // by "namespace/archive"
};

}  // namespace compilecache::controller
