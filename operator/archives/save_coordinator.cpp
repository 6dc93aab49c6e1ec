#include "operator/archives/save_coordinator.hpp"

#include <algorithm>
#include <optional>

#include "base/log.hpp"
#include "base/printable.hpp"
#include "base/quantity.hpp"
#include "base/strings.hpp"
#include "base/time_format.hpp"

namespace compilecache::controller {
namespace {

using std::chrono::milliseconds;

constexpr int kSwapTries = 5;
constexpr milliseconds kBusyRetry{2'000};
constexpr milliseconds kFullRetry{5'000};
// How long a saver waits for other namespaces' saves at most.
constexpr milliseconds kLongestForOthers{5'000};
// Length of the nonce by which an agent distinguishes its attempts.
constexpr size_t kAttemptLength = 64;

std::string key_of(const std::string& ns, const std::string& name) { return ns + "/" + name; }
std::string ns_of(const std::string& key) { return key.substr(0, key.find('/')); }

std::optional<std::string> store_id(const std::optional<api::StoreRef>& store) {
  if (!store) return std::nullopt;
  return store->id();
}

api::SaveAnswer refused(const std::string& reason) {
  api::SaveAnswer answer;
  answer.decision = api::SaveDecision::kRefused;
  answer.reason = reason;
  return answer;
}

api::CommitAnswer answer_of(const api::ArchiveHead& head) {
  return {head.manifest_digest, head.generation, head.saved_at};
}

tl::unexpected<Error> lost(const std::string& archive, int64_t fence, const std::string& why) {
  return fail(ErrorCode::kConflict, "save of archive " + archive + " with fence " +
                                        std::to_string(fence) + ": " + why +
                                        "; stop this save and ask for a new one");
}

}  // namespace

SaveCoordinator::SaveCoordinator(ArchiveClient& archives, CacheLocks& locks,
                                 const SweepGuard& guard, int max_concurrent_saves,
                                 const Clock& clock, Random random)
    : archives_(archives),
      locks_(locks),
      guard_(guard),
      clock_(clock),
      random_(std::move(random)),
      places_(static_cast<size_t>(max_concurrent_saves), kLongestForOthers) {}

api::SaveAnswer SaveCoordinator::busy(const std::string& reason, milliseconds at_most) const {
  api::SaveAnswer answer;
  answer.decision = api::SaveDecision::kBusy;
  answer.reason = reason;
  // Spread over half the time, so that all who wait do not come back at once.
  const double part = 0.5 + random_fraction(random_) / 2;
  const auto wait = static_cast<int64_t>(static_cast<double>(at_most.count()) * part);
  answer.retry_after_ms = std::max<int64_t>(wait, 50);
  return answer;
}

// How long the holder may go on without a word: 0 when there is none or its time is over. One that
// is met for the first time (under a new leader) gets one full timeout.
milliseconds SaveCoordinator::time_left(const api::CompileCacheArchive& archive,
                                        milliseconds lock_timeout) {
  if (archive.lock.holder.empty()) return milliseconds(0);
  const MutexLock guard(mutex_);
  Holder& holder = holders_[archive.metadata.key()];
  const Monotonic now = clock_.monotonic();
  if (holder.fence != archive.lock.fence || holder.pod_uid != holder_uid(archive.lock)) {
    holder = {archive.lock.fence, holder_uid(archive.lock), store_id(archive.store),
              lock_timeout,       now + lock_timeout,       {}};
    hold_place(archive.metadata.key(), holder);
  }
  if (holder.deadline <= now) return milliseconds(0);
  return std::max(milliseconds(1), std::chrono::duration_cast<milliseconds>(holder.deadline - now));
}

Result<bool> SaveCoordinator::break_expired(const api::CompileCacheArchive& archive,
                                            milliseconds lock_timeout) {
  if (archive.lock.holder.empty()) return false;
  if (time_left(archive, lock_timeout) > milliseconds(0)) return true;
  bool locked = false;
  const auto broken = modify_archive(archives_, archive.metadata.ns, archive.metadata.name,
                                     [&](api::CompileCacheArchive& current) {
                                       locked = !current.lock.holder.empty() &&
                                                current.lock.fence != archive.lock.fence;
                                       if (locked || current.lock.holder.empty()) return false;
                                       current.lock = {"", "", current.lock.fence, ""};
                                       return true;
                                     });
  if (!broken && broken.error().code != ErrorCode::kNotFound) {
    return unexpected(broken.error().with("taking an expired save lock back"));
  }
  forget(archive.metadata.key(), archive.lock.fence);
  log_info("save lock expired", {{"reason", "holder_silent"},
                                 {"namespace", archive.metadata.ns},
                                 {"archive", archive.metadata.name},
                                 {"pod", archive.lock.pod},
                                 {"fence", std::to_string(archive.lock.fence)}});
  return locked;
}

// Why the save has to wait although nobody holds its lock; nothing: it has a place among those that
// save to the store, for as long as an unanswered grant.
std::optional<api::SaveAnswer> SaveCoordinator::wait_for_place(const std::string& key,
                                                               const SaveContext& context) {
  if (!context.store) return std::nullopt;
  FairPlaces::Answer place;
  {
    const MutexLock guard(mutex_);
    place = places_.take({context.store->id(), context.ns}, key, clock_.monotonic(),
                         context.save.lock_timeout);
  }
  if (place.granted) return std::nullopt;
  const auto due = std::chrono::ceil<milliseconds>(place.due);
  return busy("too_many_saves", place.entitled ? std::min(due, kFullRetry) : kFullRetry);
}

void SaveCoordinator::leave_place(const std::string& key, const SaveContext& context) {
  const MutexLock guard(mutex_);
  if (context.store) places_.leave(context.store->id(), key);
}

void SaveCoordinator::hold_place(const std::string& key, const Holder& holder) {
  if (holder.store) places_.hold({*holder.store, ns_of(key)}, key, holder.deadline);
}

void SaveCoordinator::note(const std::string& key, Holder holder) {
  const MutexLock guard(mutex_);
  hold_place(key, holder);
  holders_[key] = std::move(holder);
}

void SaveCoordinator::forget(const std::string& key, int64_t fence) {
  const MutexLock guard(mutex_);
  const auto found = holders_.find(key);
  if (found == holders_.end() || found->second.fence != fence) return;
  if (found->second.store) places_.leave(*found->second.store, key);
  holders_.erase(found);
}

bool SaveCoordinator::is_saving(const std::string& ns, const std::string& archive) const {
  const MutexLock guard(mutex_);
  const auto found = holders_.find(key_of(ns, archive));
  return found != holders_.end() && found->second.deadline > clock_.monotonic();
}

void SaveCoordinator::take_over(const api::CompileCacheArchive& archive,
                                milliseconds lock_timeout) {
  if (archive.lock.holder.empty()) return;
  note(archive.metadata.key(), {archive.lock.fence,
                                holder_uid(archive.lock),
                                store_id(archive.store),
                                lock_timeout,
                                clock_.monotonic() + lock_timeout,
                                {}});
}

std::set<std::string> SaveCoordinator::written_anew(const std::string& key, int64_t fence) const {
  const MutexLock guard(mutex_);
  const auto found = holders_.find(key);
  const bool known = found != holders_.end() && found->second.fence == fence;
  return known ? found->second.written_anew : std::set<std::string>();
}

Result<api::CompileCacheArchive> SaveCoordinator::find_or_create(const SaveContext& context) {
  const std::string name = api::archive_name(context.cache, context.key);
  auto archive = archives_.get(context.ns, name);
  if (archive || archive.error().code != ErrorCode::kNotFound) return archive;
  api::CompileCacheArchive fresh;
  fresh.metadata.ns = context.ns;
  fresh.metadata.name = name;
  fresh.cache = context.cache;
  fresh.cache_uid = context.cache_uid;
  fresh.key = context.key;
  fresh.store = context.store;
  auto created = archives_.create(fresh);
  if (!created && created.error().code == ErrorCode::kAlreadyExists) {
    return archives_.get(context.ns, name);
  }
  if (created) {
    log_info("archive created", {{"reason", "first_save_of_key"},
                                 {"namespace", context.ns},
                                 {"cache", context.cache},
                                 {"archive", name},
                                 {"pod", context.pod}});
  }
  return created;
}

Result<api::SaveAnswer> SaveCoordinator::request(const SaveContext& context,
                                                 const api::SaveRequest& request) {
  if (std::string reason = refusal(context); !reason.empty()) return refused(reason);
  const std::string key = key_of(context.ns, api::archive_name(context.cache, context.key));
  {
    // The common answer while somebody else saves costs no call to the API server.
    const MutexLock guard(mutex_);
    const auto holder = holders_.find(key);
    if (holder != holders_.end() && holder->second.pod_uid != context.pod_uid &&
        holder->second.deadline > clock_.monotonic()) {
      return busy("locked", kBusyRetry);
    }
  }
  const CacheLocks::Guard guard = locks_.lock(key_of(context.ns, context.cache));
  for (int attempt = 0; attempt < kSwapTries; ++attempt) {
    auto archive = find_or_create(context);
    if (!archive) return unexpected(archive.error().with("asking for a save"));
    auto answer = grant(context, request, std::move(*archive));
    if (answer || answer.error().code != ErrorCode::kConflict) return answer;
  }
  return busy("contended", kBusyRetry);
}

// kConflict: the archive changed meanwhile, read it again.
Result<api::SaveAnswer> SaveCoordinator::grant(const SaveContext& context,
                                               const api::SaveRequest& request,
                                               api::CompileCacheArchive archive) {
  const std::string key = archive.metadata.key();
  // The archive belongs to an earlier CompileCache of the same name; the API server is about to
  // delete it.
  if (archive.metadata.deleting || archive.cache_uid != context.cache_uid) {
    return busy("archive_being_deleted", kFullRetry);
  }
  if (std::string reason = refusal(context, request, archive); !reason.empty()) {
    return refused(reason);
  }
  const bool own =
      holder_uid(archive.lock) == context.pod_uid;  // of an attempt whose answer was lost
  const milliseconds left = own ? milliseconds(0) : time_left(archive, context.save.lock_timeout);
  if (left > milliseconds(0)) return busy("locked", std::min(left, kBusyRetry));
  if (auto wait = wait_for_place(key, context)) return *wait;

  const api::SaveLock before = archive.lock;
  archive.lock.holder =
      context.pod_uid + "/" + printable(first_bytes(request.attempt, kAttemptLength));
  archive.lock.pod = context.pod;
  archive.lock.fence = before.fence + 1;
  archive.lock.acquired_at = format_time(clock_.wall());
  const auto written = archives_.update_status(archive);
  if (!written) {
    leave_place(key, context);
    return unexpected(written.error().with("taking the save lock of archive " + key));
  }
  note(key,
       {archive.lock.fence, context.pod_uid, store_id(context.store), context.save.lock_timeout,
        clock_.monotonic() + context.save.lock_timeout, blobs_to_write_anew(context, *written)});
  log_info("save granted", {{"reason", before.holder.empty() ? "free" : "taken_over"},
                            {"namespace", context.ns},
                            {"cache", context.cache},
                            {"archive", archive.metadata.name},
                            {"pod", context.pod},
                            {"fence", std::to_string(archive.lock.fence)},
                            {"earlier_holder", before.pod}});
  return granted(context, request, *written);
}

api::SaveAnswer SaveCoordinator::granted(const SaveContext& context,
                                         const api::SaveRequest& request,
                                         const api::CompileCacheArchive& archive) const {
  api::SaveAnswer answer;
  answer.decision = api::SaveDecision::kGranted;
  answer.id = archive.metadata.name + "." + std::to_string(archive.lock.fence);
  answer.fence = archive.lock.fence;
  answer.lock_timeout_ms = context.save.lock_timeout.count();
  answer.archive = archive.metadata.name;
  answer.key = archive.key;
  if (const auto product = archive.key.find(api::kGpuProductPart); product != archive.key.end()) {
    answer.gpu_product = product->second;
  }
  answer.generation = next_generation(archive);
  if (extends_head(context, request, archive)) answer.parent_digest = archive.head.manifest_digest;
  const std::set<std::string> anew = blobs_to_write_anew(context, archive);
  answer.condemned.assign(anew.begin(), anew.end());
  return answer;
}

Status SaveCoordinator::renew(const std::string& ns, const std::string& pod_uid,
                              const std::string& id, int64_t fence, milliseconds lock_timeout) {
  const auto parsed = parse_save_id(id);
  if (!parsed) return unexpected(parsed.error());
  const std::string key = key_of(ns, parsed->archive);
  if (fence != parsed->fence) return lost(key, fence, "the id is of another fence");
  {
    const MutexLock guard(mutex_);
    const auto found = holders_.find(key);
    if (found != holders_.end() && found->second.fence >= fence) {
      Holder& holder = found->second;
      if (holder.fence > fence || holder.pod_uid != pod_uid) {
        return lost(key, fence, "another pod holds the lock now");
      }
      holder.deadline = clock_.monotonic() + holder.timeout;
      hold_place(key, holder);
      return {};
    }
  }
  return take_over_from(ns, pod_uid, parsed->archive, fence, lock_timeout);
}

// Granted by the previous leader. The lock's holder is read again when no commit or grant can come
// before it is noted; the lock's CompileCache never changes.
Status SaveCoordinator::take_over_from(const std::string& ns, const std::string& pod_uid,
                                       const std::string& name, int64_t fence,
                                       milliseconds lock_timeout) {
  const std::string key = key_of(ns, name);
  auto archive = archives_.get(ns, name);
  std::optional<CacheLocks::Guard> guard;
  if (archive) {
    guard.emplace(locks_.lock(key_of(ns, archive->cache)));
    archive = archives_.get(ns, name);
  }
  if (!archive) {
    if (archive.error().code == ErrorCode::kNotFound) {
      return lost(key, fence, "the archive was deleted");
    }
    return unexpected(archive.error().with("renewing a save lock"));
  }
  if (archive->lock.fence != fence || holder_uid(archive->lock) != pod_uid) {
    return lost(key, fence, "the lock is no longer this pod's");
  }
  take_over(*archive, lock_timeout);
  return {};
}

Status SaveCoordinator::check_commit(const SaveContext& context,
                                     const api::CompileCacheArchive& archive, int64_t fence,
                                     const api::CommitRequest& request) const {
  const std::string& name = archive.metadata.name;
  if (archive.lock.fence != fence || request.fence != fence) {
    return lost(name, fence, "the lock has fence " + std::to_string(archive.lock.fence) + " now");
  }
  if (holder_uid(archive.lock) != context.pod_uid) {
    return lost(name, fence, "the lock is no longer this pod's");
  }
  if (archive.cache != context.cache) return lost(name, fence, "it is of another CompileCache");
  if (!request.parent_digest.empty() && request.parent_digest != archive.head.manifest_digest) {
    return lost(name, fence, "the head it extends is no longer the head");
  }
  const std::string why =
      unfit(context, request, archive, written_anew(archive.metadata.key(), fence));
  if (!why.empty()) return lost(name, fence, why);
  const std::string cache = key_of(context.ns, context.cache);
  std::vector<std::string> blobs = request.blobs;
  blobs.push_back(request.manifest_digest);
  for (const std::string& blob : blobs) {
    if (guard_.refuses(cache, {name, fence}, blob)) {
      return lost(name, fence, "blob " + blob + " is condemned and being swept");
    }
  }
  if (static_cast<uint64_t>(request.compressed_bytes) > context.save.max_archive_size) {
    return fail(ErrorCode::kTooLarge,
                "save of archive " + name + ": " +
                    format_bytes(static_cast<uint64_t>(request.compressed_bytes)) +
                    " are more than spec.save.maxArchiveSize " +
                    format_bytes(context.save.max_archive_size) +
                    "; raise it to keep such archives");
  }
  return {};
}

Result<Committed> SaveCoordinator::commit(const SaveContext& context, const std::string& id,
                                          const api::CommitRequest& request) {
  const auto parsed = parse_save_id(id);
  if (!parsed) return unexpected(parsed.error());
  if (const Status valid = check_commit_request(request); !valid) return unexpected(valid.error());
  const std::string key = key_of(context.ns, parsed->archive);
  const CacheLocks::Guard guard = locks_.lock(key_of(context.ns, context.cache));
  for (int attempt = 0; attempt < kSwapTries; ++attempt) {
    auto archive = archives_.get(context.ns, parsed->archive);
    if (!archive) {
      if (archive.error().code == ErrorCode::kNotFound) {
        return lost(key, parsed->fence, "the archive was deleted");
      }
      return unexpected(archive.error().with("committing a save"));
    }
    if (const auto* head = already_committed(context, *archive, parsed->fence, request)) {
      forget(key, parsed->fence);
      return Committed{answer_of(*head), true};
    }
    if (const Status allowed = check_commit(context, *archive, parsed->fence, request); !allowed) {
      return unexpected(allowed.error());
    }
    put_head(context, request, format_time(clock_.wall()), *archive);
    const auto written = archives_.update_status(*archive);
    if (!written && written.error().code == ErrorCode::kConflict) continue;
    if (!written) return unexpected(written.error().with("committing a save of archive " + key));
    forget(key, parsed->fence);
    log_info("save committed", {{"reason", "committed"},
                                {"namespace", context.ns},
                                {"cache", context.cache},
                                {"archive", parsed->archive},
                                {"pod", context.pod},
                                {"fence", std::to_string(parsed->fence)},
                                {"generation", std::to_string(written->head.generation)},
                                {"manifest", written->head.manifest_digest},
                                {"bytes", std::to_string(written->head.compressed_bytes)},
                                {"layers", std::to_string(written->head.layers)}});
    return Committed{answer_of(written->head)};
  }
  return fail(ErrorCode::kUnavailable, "committing a save of archive " + key +
                                           ": the archive kept changing; send the commit again");
}

Status SaveCoordinator::release(const std::string& ns, const std::string& cache,
                                const std::string& pod_uid, const std::string& id) {
  const auto parsed = parse_save_id(id);
  if (!parsed) return unexpected(parsed.error());
  const CacheLocks::Guard guard = locks_.lock(key_of(ns, cache));
  bool ours = false;
  const auto archive =
      modify_archive(archives_, ns, parsed->archive, [&](api::CompileCacheArchive& current) {
        ours = current.lock.fence == parsed->fence && holder_uid(current.lock) == pod_uid;
        if (!ours) return false;
        current.lock = {"", "", parsed->fence, ""};
        return true;
      });
  if (!archive && archive.error().code != ErrorCode::kNotFound) {
    return unexpected(archive.error().with("giving back a save lock"));
  }
  if (ours) {
    forget(key_of(ns, parsed->archive), parsed->fence);
    log_info("save released", {{"reason", "no_commit"},
                               {"namespace", ns},
                               {"archive", parsed->archive},
                               {"fence", std::to_string(parsed->fence)}});
  }
  return {};
}

}  // namespace compilecache::controller
