#include "operator/agents/save_service.hpp"

#include <utility>

#include "base/log.hpp"
#include "operator/agents/load_decision.hpp"
#include "operator/archives/archive_trust.hpp"

namespace compilecache::controller {
namespace {

using std::chrono::milliseconds;

constexpr size_t kRemembered = 100'000;  // saves; far more than there can be at once
constexpr milliseconds kChecking{30'000};

}  // namespace

// A saver cannot read the head that it was to extend. What it found corrupt is handed out no more,
// and the next save starts from scratch. What it only does not see may be there for others, so a
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

Result<api::SaveAnswer> SaveService::request(const Caller& caller,
                                             const api::SaveRequest& request) {
  if (const Status ok = check_application(caller, request.cache); !ok) {
    return unexpected(ok.error());
  }
  const auto key = key_of(parts_.view, caller);
  // Nothing that could change while the pod runs: asking again would be in vain.
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
  const auto key = key_of(parts_.view, caller);
  if (!key) return unexpected(key.error().with("committing a save"));
  auto committed = parts_.saves.commit(parts_.contexts.of(caller, *key), id, request);
  if (!committed) return unexpected(not_committed(caller, id, committed.error()));
  if (!committed->repeated) tell_commit(caller, id, *key, request, committed->answer);
  return committed->answer;
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
  parts_.traffic.saved(archive_of(caller, key), caller.pod->name, caller.pod->uid,
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
