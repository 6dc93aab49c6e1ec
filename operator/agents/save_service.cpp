#include "operator/agents/save_service.hpp"

#include <optional>
#include <set>
#include <utility>

#include "base/log.hpp"
#include "operator/agents/load_decision.hpp"
#include "operator/archives/archive_trust.hpp"

namespace compilecache::controller {
namespace {

using std::chrono::milliseconds;

constexpr size_t kRemembered = 100'000;  // saves; far more than there can be at once
constexpr milliseconds kChecking{30'000};
// A Job that prepares a store takes some seconds.
constexpr milliseconds kPreparing{5'000};
// Saves that are looked for in the registry at a time: where that is slow, the other threads answer
// pods that load.
constexpr int kMostLooking = 3;

// A pod may be injected while its store is still being prepared.
bool is_being_prepared(const api::CompileCache& cache) {
  const auto* ready = api::find_condition(cache.status.conditions, api::kStorageReadyCondition);
  return cache.spec.storage && (ready == nullptr || ready->status == "Unknown");
}

class Counted {
 public:
  explicit Counted(std::atomic<int>& count) : count_(count), now_(++count) {}
  ~Counted() { --count_; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  [[nodiscard]] int now() const { return now_; }

 private:
  std::atomic<int>& count_;
  const int now_;
};

}  // namespace

// A saver cannot read the head that it was to extend. A corrupt head is handed out no more,
// and the next save starts from scratch. A head that it only cannot see may exist for others, so a
// sweep Job looks, and it waits: returns the word for that, or "".
std::string SaveService::doubt_head(const Caller& caller, const api::ArchiveKey& key,
                                    const api::SaveRequest& request) const {
  const std::string name = api::archive_name(caller.cache->metadata.name, key);
  if (!request.corrupt_digest.empty()) {
    parts_.wishes.distrust(caller, name, request.corrupt_digest);
    return "";
  }
  const auto archive = parts_.view.archive(caller.ns(), name);
  if (request.missing_digest.empty() || archive == nullptr) return "";
  const bool stands = usable_head(*archive) == &archive->head;
  if (!stands || !is_distrusted(archive->head, {request.missing_digest})) return "";
  parts_.wishes.want(caller);
  return "archive_being_checked";
}

// Each kind of CPU has an archive of its own, and what every CPU can load another one, so that
// hosts of two kinds do not replace each other's. Agents of 0.2 and earlier share one without that
// part.
Result<api::ArchiveKey> SaveService::saved_key(const Caller& caller, const std::string& cpu) const {
  if (!api::is_cpu_name(cpu) || cpu == api::kUnknownCpu) {
    return fail(ErrorCode::kInvalid,
                "the field cpu names no kind of CPU for which an archive can be; this is a bug of "
                "the saver");
  }
  const auto key = key_of(parts_.view, caller);
  if (!key) return key;
  return api::with_cpu(*key, cpu);
}

Result<api::SaveAnswer> SaveService::request(const Caller& caller,
                                             const api::SaveRequest& request) {
  if (const Status ok = check_application(caller, request.cache); !ok) {
    return unexpected(ok.error());
  }
  const auto key = saved_key(caller, request.cpu);
  // Nothing that could change while the pod runs: a retry cannot help.
  const bool in_vain =
      !key && key.error().code == ErrorCode::kInvalid && !key.error().reason.empty();
  if (!key && !in_vain) return unexpected(key.error().with("asking for a save"));
  api::SaveAnswer answer;
  if (in_vain) {
    answer.decision = api::SaveDecision::kRefused;
    answer.reason = key.error().reason;
  } else if (caller.pod->injection->mode == api::Mode::kReadOnly) {
    answer.decision = api::SaveDecision::kRefused;
    answer.reason = "mode_read_only";
  } else if (is_being_prepared(*caller.cache)) {
    answer.decision = api::SaveDecision::kBusy;
    answer.reason = "store_not_ready";
    answer.retry_after_ms = kPreparing.count();
  } else if (std::string why = doubt_head(caller, *key, request); !why.empty()) {
    answer.decision = api::SaveDecision::kBusy;
    answer.reason = why;
    answer.retry_after_ms = kChecking.count();
  } else {
    auto asked = parts_.saves.request(parts_.contexts.of(caller, *key), request);
    if (!asked) return asked;
    answer = std::move(*asked);
  }
  if (answer.decision == api::SaveDecision::kGranted) {
    const MutexLock lock(mutex_);
    if (granted_.size() > kRemembered) granted_.clear();
    granted_.emplace(answer.id, parts_.clock.monotonic());
  } else {
    log_info("save not granted", {{"reason", answer.reason},
                                  {"decision", std::string(api::to_string(answer.decision))},
                                  {"namespace", caller.ns()},
                                  {"cache", caller.cache->metadata.name},
                                  {"pod", caller.pod->name}});
  }
  return answer;
}

Status SaveService::renew(const Caller& caller, const std::string& id,
                          const api::RenewRequest& request) {
  return parts_.saves.renew(caller.ns(), caller.pod->uid, id, request.fence,
                            caller.cache->spec.save.lock_timeout);
}

Result<api::CommitAnswer> SaveService::commit(const Caller& caller, const std::string& id,
                                              const api::CommitRequest& request) {
  if (const Status ok = check_application(caller, ""); !ok) return unexpected(ok.error());
  const auto key = saved_key(caller, request.cpu);
  if (!key) return unexpected(key.error().with("committing a save"));
  const auto content = find_save(caller, request);
  if (!content) return unexpected(not_committed(caller, id, content.error()));
  api::CommitRequest checked = request;
  if (*content) {
    checked.compressed_bytes = static_cast<int64_t>((*content)->bytes);
    checked.blobs.clear();
    for (const auto& [digest, size] : (*content)->blobs) checked.blobs.push_back(digest);
  }
  const uint64_t added = *content ? added_bytes(caller, *key, **content) : 0;
  auto committed = parts_.saves.commit(parts_.contexts.of(caller, *key), id, checked);
  if (!committed) return unexpected(not_committed(caller, id, committed.error()));
  if (!committed->repeated) {
    tell_commit(caller, id, *key, checked, committed->answer);
    if (*content) note_saved(caller, added);
  }
  return committed->answer;
}

// The blobs of the save that really exist in the installation's own registry: a pod could commit
// what it has never pushed, and state any size. Nothing: it is in another store.
Result<std::optional<store::SavedContent>> SaveService::find_save(
    const Caller& caller, const api::CommitRequest& request) const {
  const api::RegistryRef* registry = caller.store ? caller.store->registry() : nullptr;
  if (registry == nullptr || !registry->own || parts_.repositories == nullptr) {
    return std::optional<store::SavedContent>();
  }
  const Counted looking(looking_);
  if (looking.now() > kMostLooking) {
    return fail(ErrorCode::kUnavailable,
                "committing a save: others are being looked for in the registry; try again");
  }
  auto found = parts_.repositories->find_save(registry->repository, request.manifest_digest);
  if (found) return std::optional(std::move(*found));
  const ErrorCode code = found.error().code;
  const bool is_wrong =
      code == ErrorCode::kNotFound || code == ErrorCode::kCorrupt || code == ErrorCode::kInvalid;
  return fail(is_wrong ? ErrorCode::kConflict : ErrorCode::kUnavailable,
              "committing a save that is not found in the registry: " + found.error().message);
}

// Blobs that the head does not have yet.
uint64_t SaveService::added_bytes(const Caller& caller, const api::ArchiveKey& key,
                                  const store::SavedContent& content) const {
  const auto archive =
      parts_.view.archive(caller.ns(), api::archive_name(caller.cache->metadata.name, key));
  std::set<std::string> before;
  if (archive != nullptr) before.insert(archive->head.blobs.begin(), archive->head.blobs.end());
  uint64_t added = 0;
  for (const auto& [digest, size] : content.blobs) {
    if (!before.contains(digest)) added += size;
  }
  return added;
}

// It counts for the namespace's share from now on.
void SaveService::note_saved(const Caller& caller, uint64_t bytes) const {
  if (parts_.usage != nullptr) parts_.usage->committed(caller.store->registry()->repository, bytes);
  if (parts_.registry_room) parts_.registry_room(false);
}

Error SaveService::not_committed(const Caller& caller, const std::string& id,
                                 const Error& error) const {
  log_warn("save not committed", {{"reason", to_string(error.code)},
                                  {"namespace", caller.ns()},
                                  {"cache", caller.cache->metadata.name},
                                  {"pod", caller.pod->name},
                                  {"save", id},
                                  {"error", error.message}});
  // It may be a blob on the list of a Job that died; the next Job settles that.
  if (error.code == ErrorCode::kConflict && !parts_.stats.condemned(caller.key()).empty()) {
    parts_.wishes.want(caller);
  }
  return error;
}

void SaveService::tell_commit(const Caller& caller, const std::string& id,
                              const api::ArchiveKey& key, const api::CommitRequest& request,
                              const api::CommitAnswer& answer) {
  const std::string& cache = caller.cache->metadata.name;
  parts_.stats.saved(caller.key(), api::SaveOutcome::kCommitted, answer.saved_at);
  parts_.stats.update_recent(caller.key(), caller.pod->uid, [](api::RecentPod& pod) {
    pod.save = api::to_string(api::SaveOutcome::kCommitted);
    pod.save_reason.clear();
  });
  parts_.metrics.commit(caller.ns(), cache, seconds_since_grant(id));
  parts_.traffic.saved(flight_of(parts_.pods, caller, key), caller.pod->name, caller.pod->uid,
                       settle_time(request));
  record_event(parts_.events, caller, kube::EventType::kNormal, "CacheSaved",
               "saved generation " + std::to_string(answer.generation) + " of archive " +
                   api::archive_name(cache, key));
}

Status SaveService::release(const Caller& caller, const std::string& id) {
  seconds_since_grant(id);
  return parts_.saves.release(caller.ns(), caller.cache->metadata.name, caller.pod->uid, id);
}

// Nothing when this process has not granted it. Forgets the grant.
std::optional<double> SaveService::seconds_since_grant(const std::string& id) {
  const MutexLock lock(mutex_);
  const auto granted = granted_.extract(id);
  if (granted.empty()) return std::nullopt;
  return std::chrono::duration<double>(parts_.clock.monotonic() - granted.mapped()).count();
}

}  // namespace compilecache::controller
