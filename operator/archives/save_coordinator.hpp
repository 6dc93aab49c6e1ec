#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "api/agent_api.hpp"
#include "api/compile_cache.hpp"
#include "base/clock.hpp"
#include "base/mutex.hpp"
#include "base/random.hpp"
#include "operator/archives/archive_writer.hpp"
#include "operator/archives/save_rules.hpp"
#include "operator/archives/sweep_guard.hpp"

// Saves never collide: at most one pod holds the lock of an archive, and only the holder's commit
// succeeds.
//
//   SaveCoordinator saves(writer, locks, guard, 50, clock, random);
//   auto answer = saves.request(context, request);          // granted: id, fence, parent
//   saves.renew(ns, pod, answer->id, answer->fence, lock_timeout);  // at a third of the time-out
//   auto head = saves.commit(context, answer->id, commit);  // kConflict: the lock was lost
//
// The lock is in the archive's status: holder ("<pod uid>/<nonce>") and fence, a number that only
// grows. Lock and head change in one compare-and-swap on the status, so a commit with an old fence
// cannot succeed whatever this object believes. What is kept here is only when each holder was last
// heard of, by the monotonic clock; a new leader starts with nothing and gives each holder that it
// meets one full time-out.
//
// A save's id is "<archive>.<fence>", so any leader understands it. A commit whose answer was lost
// may be sent again and is answered the same. Thread-safe; calls block on the API server. Grants,
// commits and releases of one CompileCache run one after another, see CacheLocks.

namespace compilecache::controller {

// One mutex for each CompileCache, "namespace/name". A sweep's decisions take the same one as
// commits, so that none is made between a commit's check and its write.
class CacheLocks {
 public:
  // A std::mutex each: what it keeps in order is in the API server and no member, so that there
  // is nothing for the thread-safety analysis to check.
  using Guard = std::pair<std::shared_ptr<std::mutex>, std::unique_lock<std::mutex>>;
  [[nodiscard]] Guard lock(const std::string& cache);

 private:
  Mutex mutex_;
  std::map<std::string, std::shared_ptr<std::mutex>> mutexes_ GUARDED_BY(mutex_);
};

struct Committed {
  api::CommitAnswer answer;
  bool repeated = false;  // it was committed before, and the answer was lost
};

class SaveCoordinator {
 public:
  // `max_concurrent_saves`: of one claim.
  SaveCoordinator(ArchiveWriter& writer, CacheLocks& locks, const SweepGuard& guard,
                  int max_concurrent_saves, const Clock& clock, Random random);

  // Grants, or says why not: "busy" with a time to come back, "refused" for good. An Error means
  // that the API server could not be asked.
  Result<api::SaveAnswer> request(const SaveContext& context, const api::SaveRequest& request);

  // kConflict: the lock is lost, the save has to stop. `lock_timeout` is what the CompileCache says
  // now; it holds for a save that the leader before us has granted.
  Status renew(const std::string& ns, const std::string& pod_uid, const std::string& id,
               int64_t fence, std::chrono::milliseconds lock_timeout);

  // kConflict: the lock is lost, the head has changed, it or a blob is distrusted meanwhile, or a
  // blob is being swept; kTooLarge, kInvalid.
  Result<Committed> commit(const SaveContext& context, const std::string& id,
                           const api::CommitRequest& request);

  // Gives the lock back without a commit. Not holding it is no error.
  Status release(const std::string& ns, const std::string& cache, const std::string& pod_uid,
                 const std::string& id);

  // A new leader has met this archive: its holder, if any, gets one full time-out from now.
  void take_over(const api::CompileCacheArchive& archive, std::chrono::milliseconds lock_timeout);

  // Takes the lock from a holder that was not heard of for its whole time-out, so that what a dead
  // saver left counts as a save under way no longer. Returns whether the archive is locked
  // afterwards. The caller has the CompileCache's lock.
  Result<bool> break_expired(const api::CompileCacheArchive& archive,
                             std::chrono::milliseconds lock_timeout);

  // Whether a holder that has been heard of lately is saving.
  [[nodiscard]] bool is_saving(const std::string& ns, const std::string& archive) const;

 private:
  struct Holder {
    int64_t fence = 0;
    std::string pod_uid;
    std::string claim;  // "namespace/claim"
    std::chrono::milliseconds timeout{0};
    Monotonic deadline;
    // Blobs that it was told to write anew; a new leader does not know, and lets it ask again.
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
  [[nodiscard]] bool claim_is_full(const std::string& claim, const std::string& except) const;
  void note(const std::string& key, Holder holder);
  void forget(const std::string& key, int64_t fence);
  api::SaveAnswer busy(const std::string& reason, std::chrono::milliseconds at_most) const;

  ArchiveWriter& writer_;
  CacheLocks& locks_;
  const SweepGuard& guard_;
  const int max_concurrent_saves_;
  const Clock& clock_;
  const Random random_;
  mutable Mutex mutex_;
  std::map<std::string, Holder> holders_ GUARDED_BY(mutex_);  // by "namespace/archive"
};

}  // namespace compilecache::controller
