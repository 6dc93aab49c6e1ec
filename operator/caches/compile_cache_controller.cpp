#include "operator/caches/compile_cache_controller.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "api/names.hpp"
#include "base/log.hpp"
#include "base/quantity.hpp"
#include "base/strings.hpp"
#include "base/time_format.hpp"
#include "operator/archives/archive_trust.hpp"
#include "operator/archives/collection_planner.hpp"
#include "operator/caches/conditions.hpp"
#include "operator/caches/counters_backup.hpp"
#include "operator/cluster/earliest_requeue.hpp"
#include "operator/registry/registry_quota.hpp"

namespace compilecache::controller {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

// Values derived from time alone are checked this often.
constexpr minutes kLookAgain{10};
constexpr minutes kVolumeKnown{1};
// A stale archive that could not be deleted.
constexpr seconds kTryAgain{10};
constexpr std::chrono::milliseconds kAfterConflict{300};
constexpr seconds kLongestAfterConflict{30};

kube::ObjectReference reference(const api::CompileCache& cache) {
  return {api::kApiVersion, "CompileCache", cache.metadata.ns, cache.metadata.name,
          cache.metadata.uid};
}

std::vector<std::string> framework_names(const Settings& settings) {
  std::vector<std::string> names;
  for (const auto& [name, framework] : settings.frameworks) names.push_back(name);
  return names;
}

}  // namespace

CompileCacheController::CompileCacheController(ControllerParts parts, const Clock& clock)
    : parts_(std::move(parts)), clock_(clock) {}

Status CompileCacheController::take_over() { return seed_counters(parts_.client, parts_.stats); }

Result<kube::Reconciled> CompileCacheController::reconcile(const std::string& key) {
  if (!parts_.is_leader()) return kube::Reconciled{};
  const auto name = kube::split_key(key);
  Result<kube::Reconciled> done = kube::Reconciled{};
  if (const auto invalid = parts_.invalid.get(key)) {
    done = reconcile_invalid(*invalid);
  } else if (const auto cache = parts_.view.cache(name.ns, name.name)) {
    done = reconcile_valid(*cache);
  } else {
    forget(key);
    return done;
  }
  if (!done && done.error().code == ErrorCode::kConflict) {
    return kube::Reconciled{.again_after = pause_after_conflict(key)};
  }
  {
    const MutexLock lock(mutex_);
    conflicts_.erase(key);
  }
  parts_.metrics.reconcile(done.has_value());
  return done;
}

// Somebody wrote first; the change reaches our store in a moment, or later where its watch is slow.
Duration CompileCacheController::pause_after_conflict(const std::string& key) {
  const MutexLock lock(mutex_);
  const int before = conflicts_[key]++;
  return std::min<Duration>(kAfterConflict * (1 << std::min(before, 10)), kLongestAfterConflict);
}

Result<kube::Reconciled> CompileCacheController::reconcile_invalid(const InvalidCache& invalid) {
  const api::CompileCache& cache = invalid.cache;
  auto conditions = cache.status.conditions;
  update_conditions(conditions,
                    {.generation = cache.metadata.generation,
                     .invalid = invalid.error,
                     .storage = {"Unknown", "NotChecked", "the specification cannot be used"}},
                    format_time(clock_.wall()));
  auto wait = parts_.writer.write_conditions(cache, conditions);
  if (!wait) {
    // It may just have been deleted; then there is no status left to write.
    parts_.invalid.forget(cache.metadata.key());
    return unexpected(wait.error());
  }
  if (*wait == Duration::zero()) tell_change(cache, cache.status.conditions, conditions);
  return kube::Reconciled{.again_after = *wait};
}

Result<kube::Reconciled> CompileCacheController::reconcile_valid(const api::CompileCache& cache) {
  if (cache.metadata.deleting) return kube::Reconciled{};
  on_first_seen(cache);
  notice_deleted(cache);
  auto facts = storage_facts(cache);
  if (!facts) return unexpected(facts.error());
  StorageVerdict verdict = check_storage(cache.spec.storage, *facts);
  Duration again = kLookAgain;
  if (verdict.may_prepare) {
    auto after = parts_.sweeper.reconcile(cache, facts->claim);
    if (!after) return unexpected(after.error());
    again = earliest_requeue(again, *after);
    parts_.sweeper.fill(cache.metadata.key(), *facts);
    verdict = check_storage(cache.spec.storage, *facts);
  }
  if (auto judged = judge_crashes(cache); !judged) return unexpected(judged.error());
  again = earliest_requeue(again, collect(cache));

  const StatusInput seen = gather(cache, *facts, std::move(verdict));
  const StatusDecision decided = decide_status(seen, parts_.settings.breaker);
  const auto after = act(cache, seen, decided);
  if (!after) return unexpected(after.error());
  return kube::Reconciled{.again_after = earliest_requeue(again, *after)};
}

// Archives that make applications crash are handed out no more, or again.
Status CompileCacheController::judge_crashes(const api::CompileCache& cache) {
  for (const auto& archive : parts_.view.archives_of(cache.metadata.ns, cache.metadata.name)) {
    const std::string key = crash_group(*archive);
    parts_.crashes.look(key, clock_.monotonic());
    for (const Blame& blame : parts_.crashes.blame(key)) {
      api::CompileCacheArchive tried = *archive;
      if (!mark_crashing(tried, blame.manifest, blame.pods, "", blame.hang))
        continue;  // known, or replaced
      auto marked = parts_.registry.crashing(*archive, blame);
      if (!marked) return unexpected(marked.error());
      if (!*marked) continue;
      tell_crashes(cache, archive->metadata.name, blame);
      parts_.sweeper.ask(cache.metadata.key());  // the volume's index names it
    }
    const std::set<std::string> accused = crashing_manifests(*archive);
    const bool acquitted = std::all_of(
        accused.begin(), accused.end(),
        [&](const std::string& manifest) { return parts_.crashes.acquits(key, manifest); });
    keep_crashing(cache, key, acquitted ? std::set<std::string>() : accused);
    if (accused.empty() || !acquitted) continue;
    if (auto told = parts_.registry.acquitted(*archive); !told) return unexpected(told.error());
  }
  return {};
}

// Files of pods that loaded it must not be saved, even after a new head or the archive's deletion.
void CompileCacheController::keep_crashing(const api::CompileCache& cache,
                                           const std::string& archive,
                                           const std::set<std::string>& accused) {
  const std::string key = cache.metadata.key();
  for (const std::string& manifest : accused) parts_.stats.add_crashing(key, manifest);
  for (const std::string& manifest : parts_.stats.crashing(key)) {
    if (accused.contains(manifest) || !parts_.crashes.acquits(archive, manifest)) continue;
    parts_.stats.remove_crashing(key, manifest);
  }
}

void CompileCacheController::tell_crashes(const api::CompileCache& cache,
                                          const std::string& archive, const Blame& blame) {
  parts_.events.warning(reference(cache), "ArchiveSuspect",
                        pods_in_words(blame.pods, blame.hang) + " that had loaded archive " +
                            archive + "; it is handed out no more until another one is saved");
}

void CompileCacheController::on_first_seen(const api::CompileCache& cache) {
  const std::string key = cache.metadata.key();
  bool another = false;  // of the same name, deleted and recreated
  {
    const MutexLock lock(mutex_);
    std::string& uid = met_[key];
    if (uid == cache.metadata.uid) return;
    another = !uid.empty();
  }
  if (another) forget(key);
  {
    const MutexLock lock(mutex_);
    met_[key] = cache.metadata.uid;
  }
  parts_.stats.seed(key, cache.status);
  parts_.sweeper.take_over(cache);
}

void CompileCacheController::forget(const std::string& key) {
  parts_.stats.forget(key);
  parts_.sweeper.forget(key);
  parts_.breaker.forget(key);
  parts_.writer.forget(key);
  parts_.metrics.forget(kube::split_key(key).ns, kube::split_key(key).name);
  const MutexLock lock(mutex_);
  met_.erase(key);
  archives_.erase(key);
  conflicts_.erase(key);
}

Result<StorageFacts> CompileCacheController::storage_facts(const api::CompileCache& cache) {
  StorageFacts facts;
  facts.store = parts_.view.store_of(cache);
  if (!facts.store) return facts;
  const api::VolumeRef* volume_ref = facts.store->volume();
  if (volume_ref == nullptr) {
    parts_.sweeper.fill(cache.metadata.key(), facts);
    const api::RegistryRef& registry = *facts.store->registry();
    if (!registry.own) return facts;
    const auto full = over_quota(cache, registry_use(parts_.view, cache, parts_.usage),
                                 parts_.settings.registry.namespace_share);
    if (full) facts.over_quota = full->message;
    facts.own_registry = parts_.registry_trouble ? parts_.registry_trouble(registry.repository)
                                                 : OwnRegistryTrouble{};
    return facts;
  }
  const auto claim = parts_.claims.get(kube::object_key(volume_ref->ns, volume_ref->claim));
  if (claim == nullptr) return facts;
  facts.claim = *claim;
  parts_.sweeper.fill(cache.metadata.key(), facts);
  if (claim->volume_name.empty()) return facts;
  auto found = volume(*claim);
  if (found) {
    facts.volume = *found;
  } else if (found.error().code != ErrorCode::kNotFound) {
    return unexpected(found.error());
  }
  return facts;
}

Result<VolumeView> CompileCacheController::volume(const ClaimView& claim) {
  const std::string& name = claim.volume_name;
  const Monotonic now = clock_.monotonic();
  {
    const MutexLock lock(mutex_);
    std::erase_if(volumes_,
                  [&](const auto& known) { return now - known.second.read >= kVolumeKnown; });
    const auto known = volumes_.find(name);
    if (known != volumes_.end() && known->second.claim == claim.uid && claim.phase == "Bound")
      return known->second.volume;
  }
  auto object = parts_.client.get(kube::resources::kPersistentVolumes, "", name);
  if (!object) return unexpected(object.error().with("reading PersistentVolume " + name));
  const VolumeView read = parse_volume(*object);
  const MutexLock lock(mutex_);
  volumes_[name] = {read, claim.uid, now};
  return read;
}

// Loaders that get no answer trust the volume's index, so a deleted archive has to be removed from
// it soon.
void CompileCacheController::notice_deleted(const api::CompileCache& cache) {
  std::set<std::string> now;
  int64_t saved = 0;
  for (const auto& archive : parts_.view.archives_of(cache.metadata.ns, cache.metadata.name)) {
    now.insert(archive->metadata.uid);
    if (archive->head.exists()) ++saved;
  }
  bool deleted = false;
  {
    const MutexLock lock(mutex_);
    const auto [seen, first] = archives_.try_emplace(cache.metadata.key());
    std::set<std::string>& before = seen->second;
    // Archives that were deleted while there was no leader show as a difference from the number in
    // the status.
    deleted = first ? saved < cache.status.archives
                    : !std::includes(now.begin(), now.end(), before.begin(), before.end());
    before = std::move(now);
  }
  if (deleted) parts_.sweeper.ask(cache.metadata.key());
}

Duration CompileCacheController::collect(const api::CompileCache& cache) {
  std::vector<api::CompileCacheArchive> archives;
  for (const auto& archive : parts_.view.archives_of(cache.metadata.ns, cache.metadata.name)) {
    if (archive->cache_uid == cache.metadata.uid) archives.push_back(*archive);
  }
  const WallTime now = clock_.wall();
  const auto plan = plan_collection(archives, cache.spec.retention, in_use(cache), now);
  int64_t removed = remove_orphans(cache);
  Duration next = kLookAgain;
  for (const StaleArchive& stale : plan) {
    const std::string rule = to_string(stale.reason);
    const bool uncommitted = stale.reason == StaleReason::kUncommitted;
    const std::string why =
        uncommitted ? "was never committed" : "is stale by spec.retention." + rule;
    if (!remove(cache, stale.name, rule, why)) {
      next = kTryAgain;
    } else if (!uncommitted) {
      ++removed;
    }
  }
  if (removed > 0) {
    parts_.stats.archives_removed(cache.metadata.key(), removed);
    parts_.sweeper.ask(cache.metadata.key());
  }
  if (archives.empty()) return Duration::zero();

  for (const auto& archive : archives) {
    const auto keep = archive.head.exists() ? cache.spec.retention.unused_for
                                            : cache.spec.retention.incomplete_timeout;
    // One whose time is over has stayed because it is in use, or the newest of its product.
    const Duration left = last_used(archive) + keep - now;
    if (left > Duration::zero()) next = std::min<Duration>(next, left + seconds(1));
  }
  return next;
}

// Deletes archives of an earlier CompileCache of this name that was deleted without them (kubectl
// delete --cascade=orphan): no pod may load them or save to them.
int64_t CompileCacheController::remove_orphans(const api::CompileCache& cache) {
  std::vector<std::string> strangers;
  for (const auto& archive : parts_.view.archives_of(cache.metadata.ns, cache.metadata.name)) {
    if (archive->cache_uid != cache.metadata.uid && !archive->metadata.deleting)
      strangers.push_back(archive->metadata.name);
  }
  // The archive may also belong to a later CompileCache, which our watch has not shown yet.
  if (strangers.empty() || !is_the_one_there(cache)) return 0;
  int64_t removed = 0;
  for (const std::string& name : strangers) {
    if (remove(cache, name, "orphan", "was left by an earlier CompileCache of this name")) {
      ++removed;
    }
  }
  return removed;
}

// Asks the API server. It lists them, since `get` is a right that nothing else needs.
bool CompileCacheController::is_the_one_there(const api::CompileCache& cache) const {
  const auto found = parts_.client.list(
      resources::kCompileCaches,
      {.ns = cache.metadata.ns, .field_selector = "metadata.name=" + cache.metadata.name});
  if (!found) {
    log_info("archives without an owner stay for now",
             {{"cache", cache.metadata.key()}, {"error", found.error().message}});
    return false;
  }
  for (const auto& item : found->at("items")) {
    const auto& metadata = item.at("metadata");
    if (metadata.value("name", "") == cache.metadata.name)
      return metadata.value("uid", "") == cache.metadata.uid;
  }
  return false;
}

bool CompileCacheController::remove(const api::CompileCache& cache, const std::string& name,
                                    const std::string& rule, const std::string& why) {
  const auto archive = parts_.view.archive(cache.metadata.ns, name);
  if (archive == nullptr || !parts_.is_leader()) return false;
  // The resource version is a precondition too: a pod that has just loaded the archive has changed
  // it.
  auto removed = parts_.client.remove(
      resources::kCompileCacheArchives, cache.metadata.ns, name,
      {.uid = archive->metadata.uid, .resource_version = archive->metadata.resource_version});
  if (!removed) {
    if (removed.error().code == ErrorCode::kNotFound)
      return false;  // gone; the store does not know yet
    log_info("a stale archive stays for now",
             {{"archive", archive->metadata.key()}, {"error", removed.error().message}});
    return false;
  }
  const std::string size =
      format_bytes(static_cast<uint64_t>(std::max<int64_t>(0, archive->head.compressed_bytes)));
  log_info("deleted a stale archive",
           {{"archive", archive->metadata.key()}, {"rule", rule}, {"bytes", size}});
  parts_.events.normal(reference(cache), "ArchiveCollected",
                       "archive " + name + " (" + size + ") " + why + " and was deleted");
  return true;
}

// The archives of a running pod's key: which of them it loaded, by its host's CPU, is not always
// known. All archives where the API server does not say now which devices the pod has; none where
// the pod has no key.
std::set<std::string> CompileCacheController::archives_of_pod(const api::CompileCache& cache,
                                                              const PodView& pod) const {
  const auto node = parts_.view.node(pod.node);
  if (!pod.injection || !node) return {};
  const api::KeyBasis& basis = pod.injection->key_basis;
  std::optional<api::DeviceFacts> devices;
  if (basis.claims) {
    auto read = parts_.devices(pod, pod.node);
    if (!read && read.error().reason == api::kDevicesUnreadable) return archives_like(cache, {});
    if (!read) return {};
    devices = std::move(*read);
  }
  const auto key = api::make_key(basis, *node, devices ? &*devices : nullptr);
  return key ? archives_like(cache, *key) : std::set<std::string>();
}

// The names of those that differ from this key in the CPU alone; without one: of all.
std::set<std::string> CompileCacheController::archives_like(
    const api::CompileCache& cache, const std::optional<api::ArchiveKey>& key) const {
  std::set<std::string> names;
  for (const auto& archive : parts_.view.archives_of(cache.metadata.ns, cache.metadata.name)) {
    if (!key || api::is_same_but_cpu(archive->key, *key)) names.insert(archive->metadata.name);
  }
  return names;
}

// The archives that running pods loaded, as far as their reports or keys show, and those with a
// save under way.
std::set<std::string> CompileCacheController::in_use(const api::CompileCache& cache) const {
  std::set<std::string> names;
  std::set<std::string> alive;
  for (const auto& pod : parts_.view.active_pods(cache.metadata.ns, cache.metadata.name)) {
    alive.insert(pod->uid);
    names.merge(archives_of_pod(cache, *pod));
  }
  names.merge(parts_.stats.archives_in_use(cache.metadata.key(), alive));
  api::CompileCacheStatus seen = cache.status;
  parts_.stats.fill(cache.metadata.key(), seen);
  for (const api::RecentPod& recent : seen.recent.list()) {
    if (alive.contains(recent.pod_uid)) names.insert(recent.archive);
  }
  for (const auto& archive : parts_.view.archives_of(cache.metadata.ns, cache.metadata.name)) {
    if (parts_.is_saving(cache.metadata.ns, archive->metadata.name)) {
      names.insert(archive->metadata.name);
    } else if (!archive->head.exists()) {
      names.erase(archive->metadata.name);  // whatever runs under its key, it holds nothing
    }
  }
  return names;
}

// All that the status is made of. Nothing is changed but what the breaker and the pods' silence
// remember of what they saw.
StatusInput CompileCacheController::gather(const api::CompileCache& cache,
                                           const StorageFacts& facts,
                                           StorageVerdict verdict) const {
  const auto& [ns, name] = std::tie(cache.metadata.ns, cache.metadata.name);
  StatusInput seen{.cache = cache, .counted = cache.status, .storage = std::move(verdict)};
  seen.copy_trouble = facts.copy_trouble;
  seen.own_registry = facts.own_registry;
  seen.unreachable = parts_.view.agent_service().trouble;
  parts_.stats.fill(cache.metadata.key(), seen.counted);
  if (std::string job = parts_.sweeper.newest_job(cache.metadata.key()); !job.empty()) {
    seen.counted.sweep_job = std::move(job);
  }
  seen.counted.adopted_store = parts_.sweeper.adopted(cache.metadata.key());
  seen.archives = parts_.view.archives_of(ns, name);
  seen.active_pods = parts_.view.active_pods(ns, name).size();
  seen.breaker = parts_.breaker.gather(cache, facts);
  seen.silence = parts_.heard.silence(ns, name, clock_.monotonic());
  seen.known_frameworks = framework_names(parts_.settings);
  seen.now = clock_.wall();
  return seen;
}

// When to come again; 0: when something changes.
Result<Duration> CompileCacheController::act(const api::CompileCache& cache,
                                             const StatusInput& seen,
                                             const StatusDecision& decided) {
  if (seen.silence.turned) parts_.heard.announce(cache.metadata.ns);
  Duration again = parts_.breaker.act(cache, seen.breaker, decided.breaker);
  if (decided.refuse_owners) parts_.stats.refuse_owners(cache.metadata.key());
  const auto wait = parts_.writer.write(cache, decided.status);
  if (!wait) return unexpected(wait.error());
  if (*wait == Duration::zero()) {
    tell_change(cache, cache.status.conditions, decided.status.conditions);
  }
  again = earliest_requeue(again, decided.again);
  return earliest_requeue(again, *wait);
}

// One Event when archives were copied, or could not be.
void CompileCacheController::tell_copied(const api::CompileCache& cache,
                                         const std::vector<api::Condition>& before,
                                         const std::vector<api::Condition>& after) {
  const api::Condition* was = api::find_condition(before, api::kArchivesCopiedCondition);
  const api::Condition* is = api::find_condition(after, api::kArchivesCopiedCondition);
  if (is == nullptr || is->status == "Unknown") return;
  if (was != nullptr && was->status == is->status) return;
  const bool good = is->status == "True";
  parts_.events.record({reference(cache),
                        good ? kube::EventType::kNormal : kube::EventType::kWarning, is->reason,
                        is->message});
}

// One Event when a store is no longer swept. Ready says nothing of it, as pods are served.
void CompileCacheController::tell_not_swept(const api::CompileCache& cache,
                                            const std::vector<api::Condition>& before,
                                            const std::vector<api::Condition>& after) {
  const api::Condition* was = api::find_condition(before, api::kStorageReadyCondition);
  const api::Condition* is = api::find_condition(after, api::kStorageReadyCondition);
  if (is == nullptr || is->reason != kNotSwept || (was != nullptr && was->reason == kNotSwept))
    return;
  parts_.events.warning(reference(cache), kNotSwept, is->message);
}

// One Event when pods begin to be unheard.
void CompileCacheController::tell_unheard(const api::CompileCache& cache,
                                          const std::vector<api::Condition>& before,
                                          const std::vector<api::Condition>& after) {
  const api::Condition* was = api::find_condition(before, api::kPodsUnheardCondition);
  const api::Condition* is = api::find_condition(after, api::kPodsUnheardCondition);
  if (is == nullptr || is->status != "True" || (was != nullptr && was->status == "True")) return;
  parts_.events.warning(reference(cache), api::kPodsUnheardCondition, is->message);
}

// One Event for each change of the reason of Ready.
void CompileCacheController::tell_change(const api::CompileCache& cache,
                                         const std::vector<api::Condition>& before,
                                         const std::vector<api::Condition>& after) {
  tell_unheard(cache, before, after);
  tell_copied(cache, before, after);
  tell_not_swept(cache, before, after);
  const api::Condition* was = api::find_condition(before, api::kReadyCondition);
  const api::Condition* is = api::find_condition(after, api::kReadyCondition);
  if (is == nullptr || (was != nullptr && was->status == is->status && was->reason == is->reason)) {
    return;
  }
  const api::Condition* stalled = api::find_condition(after, api::kStalledCondition);
  const bool good =
      is->status == "True" ||
      (stalled != nullptr && stalled->status == "False" && !is_fault(is->reason) &&
       is->reason != api::kInjectionPausedCondition && is->reason != api::kPodsUnheardCondition &&
       is->reason != api::kOperatorUnreachableReason);
  parts_.events.record({reference(cache),
                        good ? kube::EventType::kNormal : kube::EventType::kWarning, is->reason,
                        is->message});
}

}  // namespace compilecache::controller
