#include "operator/agents/agent_handlers.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/log.hpp"
#include "base/strings.hpp"
#include "base/time_format.hpp"
#include "operator/agents/agent_words.hpp"
#include "operator/agents/load_decision.hpp"
#include "operator/archives/archive_trust.hpp"
#include "operator/storage/sweep_ledger.hpp"

namespace compilecache::controller {
namespace {

using std::chrono::milliseconds;

constexpr size_t kReasonLength = 64;
constexpr size_t kRemembered = 100'000;  // saves; far more than there can be at once
constexpr size_t kMessageLength = 512;
// In statuses, which hold hundreds of pods at most: a pod's own words are below 3 KB together.
constexpr size_t kStatusMessageLength = 256;
constexpr size_t kKeyLength = 1024;
constexpr milliseconds kChecking{30'000};
constexpr size_t kImageLength = 512;
constexpr double kLongestCompile =
    1e7;  // seconds; what an agent says is not to be believed blindly

// Of a pod, in the ledger: what it said of its last save when that was counted.
struct SavingPod {
  std::string said;
};

Status check_cache(const Caller& caller, const std::string& named) {
  if (named.empty() || named == caller.cache->metadata.name) return {};
  return fail(ErrorCode::kForbidden, "pod " + caller.pod->name + " was injected for CompileCache " +
                                         caller.cache->metadata.name + ", not for " + named);
}

// The store's folder is not as a sweep Job leaves it.
bool can_be_prepared(const std::string& reason) {
  return reason == "store_missing" || reason == "store_forbidden";
}

// Why a saver did not save although all is well: the head holds it, or there was nothing, or others
// were at it.
bool is_unchanged(const std::string& reason) {
  return reason == "unchanged" || reason == "already_current" || reason == "saved_once";
}
bool is_idle(const std::string& reason) {
  return reason == "nothing_to_save" || reason == "saving_is_off" || reason == "busy";
}

}  // namespace

AgentHandlers::AgentHandlers(AgentApiParts parts, const Settings& settings, AgentApiHooks hooks,
                             const Clock& clock)
    : parts_(parts),
      settings_(settings),
      hooks_(std::move(hooks)),
      clock_(clock),
      leading_since_(clock.monotonic()) {}

Result<std::shared_ptr<const PodView>> AgentHandlers::pod_of(const TokenIdentity& identity) const {
  auto pod = parts_.view.pod(identity.ns, identity.pod);
  if (pod == nullptr || pod->uid != identity.pod_uid) {
    // Created a moment ago, perhaps under the name of one that has just gone.
    if (!hooks_.fetch_pod)
      return fail(ErrorCode::kForbidden, "pod " + identity.pod + " is unknown");
    auto fetched = hooks_.fetch_pod(identity.ns, identity.pod);
    if (!fetched && fetched.error().code != ErrorCode::kNotFound) {
      return unexpected(fetched.error().with("looking up the caller's pod"));
    }
    if (!fetched || fetched->uid != identity.pod_uid) {
      return fail(ErrorCode::kForbidden, "pod " + identity.ns + "/" + identity.pod +
                                             " is gone; its token is no longer served");
    }
    pod = std::make_shared<const PodView>(std::move(*fetched));
  }
  return pod;
}

Result<Caller> AgentHandlers::caller(std::string_view token, std::string_view peer) {
  auto identity = parts_.auth.identify(token, peer);
  if (!identity) return unexpected(identity.error());
  auto pod = pod_of(*identity);
  if (!pod) return unexpected(pod.error());
  Caller caller{std::move(*identity), std::move(*pod), nullptr, false};
  caller.sweeper =
      !caller.pod->sweep.empty() && caller.pod->owner && caller.pod->owner->kind == "Job";
  if (!caller.sweeper && (caller.pod->cache.empty() || !caller.pod->injection)) {
    return fail(
        ErrorCode::kForbidden,
        "pod " + caller.ns() + "/" + caller.pod->name +
            " does not carry our injection; only pods that the webhook injected are served");
  }
  if (!caller.sweeper && hooks_.spoke) hooks_.spoke(*caller.pod);
  const std::string& name = caller.sweeper ? caller.pod->sweep : caller.pod->cache;
  caller.cache = parts_.view.cache(caller.ns(), name);
  if (caller.cache == nullptr || caller.cache->metadata.deleting) {
    return fail(ErrorCode::kNotFound, "CompileCache " + caller.ns() + "/" + name +
                                          " is gone; create it again to load and save");
  }
  return caller;
}

Result<api::ArchiveKey> AgentHandlers::key_of(const Caller& caller) const {
  const std::string& node = caller.identity.node.empty() ? caller.pod->node : caller.identity.node;
  const auto facts = parts_.view.node(node);
  if (!facts) {
    return fail(ErrorCode::kUnavailable, "node " + node + " is not known yet; ask again");
  }
  return api::make_key(caller.pod->injection->key_basis, *facts);
}

Result<api::ArchiveKey> AgentHandlers::app_key(const Caller& caller) const {
  if (caller.sweeper) {
    return fail(ErrorCode::kForbidden, "a sweep Job's pod neither loads nor saves");
  }
  return key_of(caller);
}

std::string AgentHandlers::product_of(const Caller& caller) const {
  if (caller.sweeper) return "";
  const auto key = key_of(caller);
  if (!key) return "";
  const auto product = key->find(api::kGpuProductPart);
  return product == key->end() ? "" : product->second;
}

// For people; not one that would fill the status.
api::ArchiveKey AgentHandlers::displayable_key(const Caller& caller) const {
  const auto key = key_of(caller);
  if (!key) return {};
  size_t length = 0;
  for (const auto& [part, value] : *key) length += part.size() + value.size();
  return length <= kKeyLength ? *key : api::ArchiveKey{};
}

Result<api::LoadAnswer> AgentHandlers::load(const Caller& caller, const api::LoadRequest& request) {
  if (const Status ok = check_cache(caller, request.cache); !ok) return unexpected(ok.error());
  if (caller.sweeper) return unexpected(app_key(caller).error());
  const api::CompileCacheSpec& spec = caller.cache->spec;
  LoadSituation situation{.cache = caller.cache->metadata.name, .key = key_of(caller)};
  situation.archives = parts_.view.archives_of(caller.ns(), situation.cache);
  // Those of an earlier CompileCache of this name were deleted with it.
  std::erase_if(situation.archives, [&](const auto& archive) {
    return archive->cache_uid != caller.cache->metadata.uid;
  });
  situation.mode = caller.pod->injection->mode;
  situation.fallback_compatible = spec.load.fallback_compatible;
  situation.timeout = spec.load.timeout;
  situation.wait_for_first = milliseconds(caller.pod->injection->wait_for_first_ms);
  situation.label_wait = settings_.agent.label_wait;
  situation.waited = milliseconds(std::max<int64_t>(0, request.waited_ms));
  situation.waited_for_place =
      std::min(milliseconds(std::max<int64_t>(0, request.waited_for_place_ms)), situation.waited);
  situation.spread = static_cast<double>(std::hash<std::string>{}(caller.pod->uid) % 1000) / 1000;
  api::LoadAnswer answer = decide_load(situation);
  judge_first(caller, answer, situation);
  if (situation.first_is_compiling) answer = decide_load(situation);
  const std::string claim = caller.ns() + "/" + spec.storage.claim_name;
  if (answer.decision == api::LoadDecision::kLoad &&
      !parts_.traffic.begin(claim, caller.pod->uid, milliseconds(answer.budget_ms))) {
    situation.too_many_loads = true;
    situation.waiting = parts_.traffic.waiting(claim);
    answer = decide_load(situation);
  }
  // A pod that waits asks again and again.
  if (answer.decision == api::LoadDecision::kWait && request.waited_ms > 0) return answer;
  log_info("load decided",
           {{"reason", answer.match ? std::string(api::to_string(answer.match)) : answer.reason},
            {"decision", std::string(api::to_string(answer.decision))},
            {"namespace", caller.ns()},
            {"cache", situation.cache},
            {"pod", caller.pod->name},
            {"archive", answer.archive},
            {"gpu_product", answer.gpu_product}});
  return answer;
}

void AgentHandlers::event(const Caller& caller, bool warning, const std::string& reason,
                          const std::string& message) {
  kube::ObjectReference object{"v1", "Pod", caller.ns(), caller.pod->name, caller.pod->uid};
  if (const auto& owner = caller.pod->owner) {
    object = {owner->api_version, owner->kind, caller.ns(), owner->name, owner->uid};
  }
  parts_.events.record({object, warning ? kube::EventType::kWarning : kube::EventType::kNormal,
                        reason, "pod " + caller.pod->name + ": " + message});
}

// Handed out no more at once; a sweep Job will read it.
void AgentHandlers::distrust(const Caller& caller, const api::LoadedReport& report) {
  const auto archive = parts_.view.archive(caller.ns(), report.archive);
  if (archive == nullptr || archive->cache != caller.cache->metadata.name) return;
  const std::string& digest =
      report.corrupt_digest.empty() ? report.manifest_digest : report.corrupt_digest;
  for (const auto& each : parts_.view.archives_of(caller.ns(), archive->cache)) {
    const std::string& name = each->metadata.name;
    // Archives of a store share blobs.
    const bool holds = !digest.empty() && (is_distrusted(each->head, {digest}) ||
                                           is_distrusted(each->previous, {digest}));
    if (name != report.archive && !holds) continue;
    const auto marked = parts_.registry.suspect(caller.ns(), name, digest, caller.pod->name);
    if (!marked) {
      log_warn("a suspect archive could not be marked", {{"reason", to_string(marked.error().code)},
                                                         {"archive", name},
                                                         {"error", marked.error().message}});
    }
  }
  if (hooks_.sweep_wanted) hooks_.sweep_wanted(caller.ns(), caller.cache->metadata.name);
}

// Whether it crashes will be compared with the others of its key.
void AgentHandlers::note_start(const Caller& caller, std::string archive,
                               const std::string& manifest) {
  if (archive.empty()) {
    const auto key = key_of(caller);
    if (!key) return;
    archive = api::archive_name(caller.cache->metadata.name, *key);
  }
  parts_.crashes.loaded(caller.ns() + "/" + archive, manifest, caller.pod->uid);
}

Status AgentHandlers::loaded(const Caller& caller, const api::LoadedReport& report) {
  if (const Status ok = check_cache(caller, report.cache); !ok) return ok;
  if (caller.sweeper) return unexpected(app_key(caller).error());
  const std::string& cache = caller.cache->metadata.name;
  parts_.traffic.end(caller.ns() + "/" + caller.cache->spec.storage.claim_name, caller.pod->uid);
  if (report.reason == "corrupt" || !report.corrupt_digest.empty()) distrust(caller, report);
  if (can_be_prepared(report.reason) && hooks_.sweep_wanted) {
    hooks_.sweep_wanted(caller.ns(), cache);
  }
  const bool again = report.outcome == api::Outcome::kSkipped &&
                     parts_.stats.load_of(caller.key(), caller.pod->uid).has_value();
  if (again) return {};  // init containers ran again over a directory that is filled

  const api::LoadOutcome load = load_outcome(report);
  const std::string load_word(api::to_string(load));
  const bool warm = api::is_warm(load);
  const std::string product = product_of(caller);
  const std::string reason = cut(report.reason, kReasonLength);
  const std::string why = reason + ": " + cut(report.message, kMessageLength);
  const api::ArchiveKey key = displayable_key(caller);
  parts_.stats.loaded(
      caller.key(),
      {.pod = caller.pod->name,
       .pod_uid = caller.pod->uid,
       .node = caller.identity.node.empty() ? caller.pod->node : caller.identity.node,
       .gpu_product = product,
       .archive = warm ? cut(report.archive, 253) : "",
       .load = load,
       .milliseconds = std::max<int64_t>(0, report.milliseconds),
       .reason = reason,
       .time = format_time(clock_.wall()),
       .key = key,
       .generation = warm ? std::max<int64_t>(0, report.generation) : 0,
       .wait_milliseconds = std::max<int64_t>(0, report.waited_ms),
       .ask_milliseconds = std::max<int64_t>(0, report.asked_ms),
       .bytes = warm ? std::max<int64_t>(0, report.bytes) : 0,
       .wait_reason = wait_word(report.waited_for),
       .message =
           load == api::LoadOutcome::kFailed ? cut(report.message, kStatusMessageLength) : "",
       .compile_seconds =
           warm ? compile_seconds_of(caller, report.archive, report.manifest_digest) : 0});
  note_start(caller, warm ? report.archive : "", warm ? report.manifest_digest : "");
  parts_.metrics.load({caller.ns(), cache, product, load,
                       static_cast<double>(report.milliseconds) / 1000,
                       std::max<int64_t>(0, report.bytes)});
  if (warm && parts_.view.archive(caller.ns(), report.archive) != nullptr) {
    parts_.registry.loaded(
        caller.ns(), report.archive,
        load == api::LoadOutcome::kExact ? api::Match::kExact : api::Match::kCompatible);
  }
  if (warm) {
    event(caller, false, "CacheLoaded",
          "loaded archive " + report.archive + " (" + load_word + ") in " +
              std::to_string(report.milliseconds) + " ms, " + std::to_string(report.waited_ms) +
              " ms of them waiting");
  } else if (load == api::LoadOutcome::kFailed) {
    event(caller, true, "CacheLoadFailed", "starts cold: " + why);
  } else {
    event(caller, false, "CacheMissing", "starts cold: " + reason + " (key " + key_text(key) + ")");
  }
  log_info("loaded", {{"reason", warm ? load_word : reason},
                      {"outcome", std::string(api::to_string(report.outcome))},
                      {"namespace", caller.ns()},
                      {"cache", cache},
                      {"pod", caller.pod->name},
                      {"archive", cut(report.archive, 253)},
                      {"source", std::string(api::to_string(report.source))},
                      {"milliseconds", std::to_string(report.milliseconds)},
                      {"waited_ms", std::to_string(report.waited_ms)},
                      {"waited_for", wait_word(report.waited_for)},
                      {"asked_ms", std::to_string(report.asked_ms)},
                      {"bytes", std::to_string(report.bytes)},
                      {"key", key_text(key)},
                      {"message", cut(report.message, kMessageLength)}});
  return {};
}

SaveContext AgentHandlers::save_context(const Caller& caller, const api::ArchiveKey& key) const {
  const api::CompileCache& cache = *caller.cache;
  const std::string& sub_path = cache.spec.storage.sub_path;
  SaveContext context;
  context.ns = caller.ns();
  context.pod = caller.pod->name;
  context.pod_uid = caller.pod->uid;
  context.service_account = caller.identity.service_account;
  context.cache = cache.metadata.name;
  context.cache_uid = cache.metadata.uid;
  context.claim_name = cache.spec.storage.claim_name;
  context.path = sub_path.empty() ? context.cache : sub_path + "/" + context.cache;
  context.save = cache.spec.save;
  context.key = key;
  context.image_id = caller.pod->image_id();
  context.refresh = caller.pod->injection->mode == api::Mode::kRefresh;
  context.loaded_manifest = parts_.crashes.manifest_of(caller.pod->uid);
  for (const std::string& manifest : parts_.stats.crashing(caller.key())) {
    context.crashing.insert(manifest);
  }
  const std::string own = api::archive_name(context.cache, key);
  for (const auto& archive : parts_.view.archives_of(context.ns, context.cache)) {
    context.crashing.merge(crashing_manifests(*archive));
    if (archive->metadata.name != own) context.distrusted.merge(blobs_to_write_anew(*archive));
  }
  context.loaded_head = parts_.stats.archive_of(caller.key(), caller.pod->uid) == own;
  return context;
}

// A saver cannot read the head that it was to extend. What it found corrupt is handed out no more,
// and the next save starts from scratch. What it only does not see may be there for others, so a
// sweep Job looks, and it waits: returns the word for that, or "".
std::string AgentHandlers::doubt_head(const Caller& caller, const api::ArchiveKey& key,
                                      const api::SaveRequest& request) {
  const std::string name = api::archive_name(caller.cache->metadata.name, key);
  if (!request.corrupt_digest.empty()) {
    distrust(caller, {.archive = name, .corrupt_digest = request.corrupt_digest});
    return "";
  }
  const auto archive = parts_.view.archive(caller.ns(), name);
  if (request.missing_digest.empty() || archive == nullptr) return "";
  const bool stands = usable_head(*archive) == &archive->head;
  if (!stands || !is_distrusted(archive->head, {request.missing_digest})) return "";
  if (hooks_.sweep_wanted) hooks_.sweep_wanted(caller.ns(), caller.cache->metadata.name);
  return "archive_being_checked";
}

Result<api::SaveAnswer> AgentHandlers::request_save(const Caller& caller,
                                                    const api::SaveRequest& request) {
  if (const Status ok = check_cache(caller, request.cache); !ok) return unexpected(ok.error());
  const auto key = app_key(caller);
  if (!key) return unexpected(key.error().with("asking for a save"));
  api::SaveAnswer answer;
  if (caller.pod->injection->mode == api::Mode::kReadOnly) {
    answer.decision = api::SaveDecision::kRefused;
    answer.reason = "mode_read_only";
  } else if (std::string why = doubt_head(caller, *key, request); !why.empty()) {
    answer.decision = api::SaveDecision::kBusy;
    answer.reason = why;
    answer.retry_after_ms = kChecking.count();
  } else {
    auto asked = parts_.saves.request(save_context(caller, *key), request);
    if (!asked) return asked;
    answer = std::move(*asked);
  }
  if (answer.decision == api::SaveDecision::kGranted) {
    const std::lock_guard lock(mutex_);
    if (granted_.size() > kRemembered) granted_.clear();
    granted_.emplace(answer.id, clock_.monotonic());
  } else {
    log_info("save not granted", {{"reason", answer.reason},
                                  {"decision", std::string(api::to_string(answer.decision))},
                                  {"namespace", caller.ns()},
                                  {"cache", caller.cache->metadata.name},
                                  {"pod", caller.pod->name}});
  }
  return answer;
}

Status AgentHandlers::renew(const Caller& caller, const std::string& id,
                            const api::RenewRequest& request) {
  return parts_.saves.renew(caller.ns(), caller.pod->uid, id, request.fence,
                            caller.cache->spec.save.lock_timeout);
}

Result<api::CommitAnswer> AgentHandlers::commit(const Caller& caller, const std::string& id,
                                                const api::CommitRequest& request) {
  const auto key = app_key(caller);
  if (!key) return unexpected(key.error().with("committing a save"));
  const SaveContext context = save_context(caller, *key);
  auto committed = parts_.saves.commit(context, id, request);
  const std::string& cache = caller.cache->metadata.name;
  if (!committed) {
    log_warn("save not committed", {{"reason", to_string(committed.error().code)},
                                    {"namespace", caller.ns()},
                                    {"cache", cache},
                                    {"pod", caller.pod->name},
                                    {"save", id},
                                    {"error", committed.error().message}});
    // It may be a blob on the list of a Job that died; the next Job settles that.
    if (committed.error().code == ErrorCode::kConflict && hooks_.sweep_wanted &&
        !parts_.stats.condemned(caller.key()).empty()) {
      hooks_.sweep_wanted(caller.ns(), cache);
    }
    return unexpected(committed.error());
  }
  if (committed->repeated) return committed->answer;
  const api::CommitAnswer& answer = committed->answer;
  parts_.stats.saved(caller.key(), api::SaveOutcome::kCommitted, answer.saved_at);
  parts_.stats.update_recent(caller.key(), caller.pod->uid, [](api::RecentPod& pod) {
    pod.save = api::to_string(api::SaveOutcome::kCommitted);
    pod.save_reason.clear();
  });
  parts_.metrics.commit(caller.ns(), cache, seconds_since_grant(id));
  const std::string archive = api::archive_name(cache, *key);
  parts_.traffic.saved(caller.ns() + "/" + archive, caller.pod->name, caller.pod->uid,
                       settle_time(request));
  event(caller, false, "CacheSaved",
        "saved generation " + std::to_string(answer.generation) + " of archive " + archive);
  return answer;
}

Status AgentHandlers::release(const Caller& caller, const std::string& id) {
  seconds_since_grant(id);
  return parts_.saves.release(caller.ns(), caller.cache->metadata.name, caller.pod->uid, id);
}

// Nothing when this process has not granted it. Forgets the grant.
std::optional<double> AgentHandlers::seconds_since_grant(const std::string& id) {
  const std::lock_guard lock(mutex_);
  const auto granted = granted_.extract(id);
  if (granted.empty()) return std::nullopt;
  return std::chrono::duration<double>(clock_.monotonic() - granted.mapped()).count();
}

// The savers of later pods of the image get that user, where such a pod may have it
// (webhook/security_context.hpp).
void AgentHandlers::learn_owner(const Caller& caller, const api::EffectReport& report) {
  const std::string& image = caller.pod->injection->key_basis.image;
  const int64_t user = report.unreadable_owner;
  if (report.unreadable_files <= 0 || !api::is_user(user) || image.empty()) return;
  if (image.size() > kImageLength) return;
  const std::string now = format_time(clock_.wall());
  if (!parts_.stats.note_owner(caller.key(), image, user, now)) return;
  event(caller, true, "CacheFilesUnreadable",
        std::to_string(report.unreadable_files) + " files of image " + image +
            " are not saved, as only user " + std::to_string(user) +
            " may read them; later pods' savers run as that user, where pod and containers name "
            "none (or set spec.save.runAsUser)");
}

// Reports repeat the last save's outcome; each change of it counts once. Commits were counted when
// they were made.
void AgentHandlers::count_save(const Caller& caller, const api::EffectReport& report) {
  const std::optional<api::Outcome> outcome = report.save_outcome;
  if (!outcome) return;
  {
    const std::string said =
        std::string(api::to_string(*outcome)) + "/" + cut(report.save_reason, kReasonLength);
    const bool is_news = parts_.pods.edit<SavingPod>(
        caller.pod->uid, [&](SavingPod& pod) { return std::exchange(pod.said, said) != said; });
    if (!is_news) return;
  }
  const std::string& cache = caller.cache->metadata.name;
  const auto count = [&](api::SaveOutcome seen) {
    parts_.stats.saved(caller.key(), seen, "");
    parts_.metrics.save(caller.ns(), cache, seen);
    parts_.stats.update_recent(caller.key(), caller.pod->uid, [&](api::RecentPod& pod) {
      pod.save = api::to_string(seen);
      pod.save_reason = cut(report.save_reason, kReasonLength);
    });
  };
  const std::string why =
      cut(report.save_reason, kReasonLength) + ": " + cut(report.save_message, kMessageLength);
  if (*outcome == api::Outcome::kSuccess && !report.save_reason.empty()) {  // but not all
    parts_.stats.update_recent(caller.key(), caller.pod->uid, [&](api::RecentPod& pod) {
      pod.save_reason = cut(report.save_reason, kReasonLength);
    });
    return event(caller, true, "CacheSaveIncomplete", why);
  }
  if (*outcome == api::Outcome::kSuccess || is_idle(report.save_reason)) return;
  if (is_unchanged(report.save_reason)) return count(api::SaveOutcome::kUnchanged);
  if (*outcome == api::Outcome::kError && report.save_reason != "too_large") {
    count(api::SaveOutcome::kFailed);
    if (can_be_prepared(report.save_reason) && hooks_.sweep_wanted) {
      hooks_.sweep_wanted(caller.ns(), cache);
    }
    return event(caller, true, "CacheSaveFailed", why);
  }
  count(api::SaveOutcome::kRefused);
  if (const auto key = key_of(caller)) {
    parts_.traffic.gives_up(caller.ns() + "/" + api::archive_name(cache, *key), caller.pod->uid);
  }
  event(caller, true, "CacheSaveRefused", why);
}

Status AgentHandlers::effect(const Caller& caller, const api::EffectReport& report) {
  if (const Status ok = check_cache(caller, report.cache); !ok) return ok;
  if (caller.sweeper) return unexpected(app_key(caller).error());
  count_save(caller, report);
  learn_owner(caller, report);
  if (report.compiling) {
    if (const auto key = key_of(caller)) {
      parts_.traffic.compiling(
          caller.ns() + "/" + api::archive_name(caller.cache->metadata.name, *key),
          caller.pod->uid);
    }
  }
  parts_.stats.update_recent(caller.key(), caller.pod->uid, [&](api::RecentPod& pod) {
    pod.loaded_entries = std::max<int64_t>(0, report.loaded_entries);
    pod.read_entries = std::max<int64_t>(0, report.read_entries);
    pod.new_entries = std::max<int64_t>(0, report.new_entries);
    pod.compile_milliseconds =
        std::llround(std::clamp(report.compile_seconds, 0.0, kLongestCompile) * 1000);
    pod.compiled = cut(report.new_names, kToldNames);
    pod.differing = cut(report.differing, kToldDiffering);
  });
  const std::optional<api::Effect> effect = report.effect;
  if (report.counted_effect) {
    parts_.stats.recall(caller.key(), caller.pod->uid, *report.counted_effect);
  }
  const auto load = parts_.stats.load_of(caller.key(), caller.pod->uid);
  // There is an effect only of something that was loaded. A pod that loaded under an earlier leader
  // may be unknown here; then its own word has to do.
  const bool warm = load ? api::is_warm(*load) : report.loaded_entries > 0;
  if (!effect || !warm) return {};
  const std::string product = product_of(caller);
  const auto move = parts_.stats.effect(
      caller.key(), {.pod = caller.pod->name,
                     .pod_uid = caller.pod->uid,
                     .node = caller.identity.node.empty() ? caller.pod->node : caller.identity.node,
                     .gpu_product = product,
                     .effect = *effect,
                     .reason = cut(report.reason, kReasonLength),
                     .seconds_saved = seconds_saved(caller, *effect, report),
                     .time = format_time(clock_.wall())});
  if (move.before == effect) return {};
  if (!move.archive.empty()) {
    parts_.registry.effect(caller.ns(), move.archive, move.before, *effect);
  }
  const std::string& cache = caller.cache->metadata.name;
  parts_.metrics.effect(caller.ns(), cache, product, *effect);
  if (*effect == api::Effect::kNone) {
    event(caller, true, "CacheNotEffective",
          "loaded archive " + move.archive +
              ", but nothing of it was used: " + compiled_anew(report));
  } else if (*effect == api::Effect::kPartial) {
    event(caller, false, "CachePartlyEffective",
          "loaded archive " + move.archive + " and used it; " + compiled_anew(report));
  }
  log_info("effect judged", {{"reason", cut(report.reason, kReasonLength)},
                             {"effect", std::string(api::to_string(*effect))},
                             {"namespace", caller.ns()},
                             {"cache", cache},
                             {"pod", caller.pod->name},
                             {"archive", move.archive},
                             {"read_entries", std::to_string(report.read_entries)},
                             {"new_entries", std::to_string(report.new_entries)},
                             {"compiled", join(cut(report.new_names, kToldNames), ", ")},
                             {"differing", join(cut(report.differing, kToldDiffering), ", ")}});
  return {};
}

void AgentHandlers::take_over() {
  for (const auto& cache : parts_.view.caches()) {
    std::vector<std::string> listed;
    for (const api::CondemnedBlob& blob : parts_.stats.condemned(cache->metadata.key())) {
      listed.push_back(blob.digest);
    }
    parts_.guard.take_over(cache->metadata.key(), listed);
    for (const auto& archive : parts_.view.archives_of(cache->metadata.ns, cache->metadata.name)) {
      parts_.saves.take_over(*archive, cache->spec.save.lock_timeout);
    }
  }
}

}  // namespace compilecache::controller
