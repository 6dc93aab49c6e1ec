#include "operator/agents/sweep_service.hpp"

#include <algorithm>
#include <utility>

#include "base/log.hpp"
#include "base/time_format.hpp"
#include "operator/archives/adoption.hpp"
#include "operator/archives/archive_trust.hpp"
#include "operator/registry/registry_quota.hpp"
#include "operator/storage/sweep_ledger.hpp"

namespace compilecache::controller {
namespace {

// Longer than any request to the API server takes.
constexpr std::chrono::seconds kSettle{90};

// What the API server has in the status as well as what is known here: only that may be deleted,
// since the next leader will know it too.
std::vector<api::CondemnedBlob> persisted(const std::vector<api::CondemnedBlob>& listed,
                                          const std::vector<api::CondemnedBlob>& in_status) {
  std::set<std::string> written;
  for (const api::CondemnedBlob& blob : in_status) written.insert(blob.digest);
  std::vector<api::CondemnedBlob> both = listed;
  std::erase_if(both, [&](const auto& blob) { return !written.contains(blob.digest); });
  return both;
}

}  // namespace

SweepService::SweepService(Parts parts)
    : parts_(std::move(parts)), leading_since_(parts_.clock.monotonic()) {}

Result<std::vector<SaveInFlight>> SweepService::in_flight(
    const Caller& caller, const std::vector<api::CompileCacheArchive>& archives) {
  std::vector<SaveInFlight> saves;
  for (const api::CompileCacheArchive& archive : archives) {
    const auto locked = parts_.saves.break_expired(archive, caller.cache->spec.save.lock_timeout);
    if (!locked) return unexpected(locked.error());
    if (*locked) saves.push_back({archive.metadata.name, archive.lock.fence});
  }
  return saves;
}

Result<api::SweepAnswer> SweepService::sweep(const Caller& caller,
                                             const api::SweepRequest& request) {
  if (!request.cache.empty() && request.cache != caller.cache->metadata.name) {
    return fail(ErrorCode::kForbidden, "pod " + caller.pod->name + " sweeps CompileCache " +
                                           caller.cache->metadata.name + ", not " + request.cache);
  }
  if (!caller.sweeper) {
    return fail(ErrorCode::kForbidden, "pod " + caller.pod->name + " is no sweep Job's pod");
  }
  if (!request.phase) {
    return fail(ErrorCode::kInvalid,
                "reading a SweepRequest: phase is none of " + api::all_words<api::SweepPhase>());
  }
  Result<api::SweepAnswer> answer;
  Status done;
  switch (*request.phase) {
    case api::SweepPhase::kAdopt:
      done = adopt(caller, request);
      break;
    case api::SweepPhase::kCopy:
      answer = take_copies(caller, request);
      break;
    case api::SweepPhase::kBegin:
      answer = sweep_begins(caller);
      break;
    case api::SweepPhase::kInventory:
      done = take_inventory(caller, request);
      break;
    case api::SweepPhase::kEnd:
      done = sweep_ends(caller, request);
      break;
  }
  if (!done) return unexpected(done.error());
  const bool counts =
      request.phase == api::SweepPhase::kBegin || request.phase == api::SweepPhase::kEnd;
  if (counts && answer && parts_.reported) parts_.reported(*caller.pod, request);
  return answer;
}

// Doing it twice does what doing it once does: the Job may die before its marker is in the store.
Status SweepService::adopt(const Caller& caller, const api::SweepRequest& request) {
  const api::CompileCache& cache = *caller.cache;
  if (!cache.spec.storage || !cache.spec.storage->adopt) {
    return fail(ErrorCode::kForbidden, "taking over a store: spec.storage.adopt of CompileCache " +
                                           cache.metadata.name + " is false");
  }
  const CacheLocks::Guard guard = parts_.locks.lock(caller.key());
  std::set<std::string> condemned;
  for (const auto& blob : parts_.stats.condemned(caller.key())) condemned.insert(blob.digest);
  const auto adopted = take_all(caller, request.found, condemned);
  if (!adopted) return unexpected(adopted.error());
  log_info("took over archives of another cluster", {{"reason", "adopted"},
                                                     {"namespace", caller.ns()},
                                                     {"cache", cache.metadata.name},
                                                     {"archives", std::to_string(*adopted)}});
  return {};
}

// What was copied is not held against what is condemned here: an earlier attempt may have left it,
// and this Job deletes no more.
Result<api::SweepAnswer> SweepService::take_copies(const Caller& caller,
                                                   const api::SweepRequest& request) {
  const api::CompileCache& cache = *caller.cache;
  if (!cache.spec.storage || !cache.spec.storage->copy_from) {
    return fail(ErrorCode::kForbidden, "copying archives: CompileCache " + cache.metadata.name +
                                           " has no spec.storage.copyFrom");
  }
  api::SweepAnswer answer;
  if (!request.found.empty()) {
    if (const Status room = has_room(caller); !room) return unexpected(room.error());
    const CacheLocks::Guard guard = parts_.locks.lock(caller.key());
    const auto unwanted = not_to_be_copied(caller);
    if (!unwanted) return unexpected(unwanted.error());
    const auto taken = take_all(caller, request.found, *unwanted);
    if (!taken) return unexpected(taken.error());
    answer.taken = *taken;
  }
  if (!request.copied_from.empty()) note_copied(caller, request);
  return answer;
}

// What made pods crash, here or where it comes from, and what is not to be trusted there.
Result<std::set<std::string>> SweepService::not_to_be_copied(const Caller& caller) const {
  std::set<std::string> unwanted;
  for (std::string& manifest : parts_.stats.crashing(caller.key()))
    unwanted.insert(std::move(manifest));
  const std::string& from = caller.cache->spec.storage->copy_from->cache;
  if (from.empty() || from == caller.cache->metadata.name) return unwanted;
  for (std::string& manifest : parts_.stats.crashing(caller.ns() + "/" + from))
    unwanted.insert(std::move(manifest));
  const auto theirs = parts_.archives.list(caller.ns(), from);
  if (!theirs) return unexpected(theirs.error().with("copying archives of CompileCache " + from));
  for (const api::CompileCacheArchive& archive : *theirs) {
    for (std::string& manifest : distrusted_manifests(archive))
      unwanted.insert(std::move(manifest));
  }
  return unwanted;
}

// As for a save: above the share of the installation's registry nothing more is put there.
Status SweepService::has_room(const Caller& caller) const {
  const api::RegistryRef* registry = caller.store ? caller.store->registry() : nullptr;
  if (registry == nullptr || !registry->own) return {};
  const auto full = over_quota(*caller.cache, registry_use(parts_.view, *caller.cache),
                               parts_.settings.registry.namespace_share);
  if (!full) return {};
  return fail(ErrorCode::kForbidden, full->message);
}

void SweepService::note_copied(const Caller& caller, const api::SweepRequest& last) const {
  log_info("copied archives", {{"reason", "copied"},
                               {"namespace", caller.ns()},
                               {"cache", caller.cache->metadata.name},
                               {"from", last.copied_from},
                               {"archives", std::to_string(last.copied_archives)},
                               {"left_out", std::to_string(last.copy_left_out)},
                               {"error", last.copy_error}});
  parts_.stats.copied(caller.key(), {.from = last.copied_from,
                                     .time = format_time(parts_.clock.wall()),
                                     .archives = last.copied_archives,
                                     .left_out = last.copy_left_out,
                                     .error = last.copy_error});
}

// How many of them there are now.
Result<int64_t> SweepService::take_all(const Caller& caller,
                                       const std::vector<api::FoundArchive>& found_archives,
                                       const std::set<std::string>& unwanted) {
  int64_t there = 0;
  for (const api::FoundArchive& found : found_archives) {
    const auto archive = adopted_archive(*caller.cache, caller.store, found, parts_.clock.wall());
    Status taken = archive ? take_in(*archive, unwanted) : Status(unexpected(archive.error()));
    // What the API server would not take stays garbage; anything else is tried again.
    if (!taken && taken.error().code != ErrorCode::kInvalid) return unexpected(taken.error());
    if (taken) {
      ++there;
    } else {
      log_warn("an archive is not taken over", {{"reason", "not_adoptable"},
                                                {"namespace", caller.ns()},
                                                {"cache", caller.cache->metadata.name},
                                                {"digest", found.manifest_digest},
                                                {"error", taken.error().message}});
    }
  }
  return there;
}

Status SweepService::take_in(const api::CompileCacheArchive& archive,
                             const std::set<std::string>& unwanted) {
  if (is_distrusted(archive.head, unwanted)) {
    return fail(ErrorCode::kInvalid, "taking over archive " + archive.metadata.name +
                                         ": it was deleted, or is not to be trusted");
  }
  const auto created = parts_.archives.create(archive);
  if (!created && created.error().code != ErrorCode::kAlreadyExists) {
    return unexpected(created.error());
  }
  const auto written =
      modify_archive(parts_.archives, archive.metadata.ns, archive.metadata.name, [&](auto& now) {
        // What was saved here is newer.
        if (now.cache_uid != archive.cache_uid || now.head.exists() || is_corrupt(now))
          return false;
        now.head = archive.head;
        return true;
      });
  if (!written) return unexpected(written.error());
  return {};
}

// Only heads that are a while old: a network file system may show new files late. Those that the
// leader before us committed, by its own clock, are so once we have led for that long.
void SweepService::note_heads(const Caller& caller,
                              const std::vector<api::CompileCacheArchive>& archives) {
  std::set<std::string> manifests;
  const bool led_long_enough = parts_.clock.monotonic() - leading_since_ >= kSettle;
  for (const api::CompileCacheArchive& archive : archives) {
    const auto saved = parse_time(archive.head.saved_at);
    if (led_long_enough && saved && parts_.clock.wall() - *saved > kSettle)
      manifests.insert(archive.head.manifest_digest);
  }
  const MutexLock lock(mutex_);
  heads_at_begin_[caller.key()] = std::move(manifests);
}

// A head whose blobs the Job did not find is handed out no more until the next one has read it. A
// page tells of the blobs within its bounds alone.
Status SweepService::miss_blobs(const Caller& caller,
                                const std::vector<api::CompileCacheArchive>& archives,
                                const api::SweepRequest& page) {
  std::set<std::string> expected;
  {
    const MutexLock lock(mutex_);
    expected = page.up_to.empty() ? std::exchange(heads_at_begin_[caller.key()], {})
                                  : heads_at_begin_[caller.key()];
  }
  std::set<std::string> present;
  for (const api::StoredBlob& blob : page.inventory) present.insert(blob.digest);
  const auto is_missing = [&](const std::string& blob) {
    return blob > page.after && (page.up_to.empty() || blob <= page.up_to) &&
           !present.contains(blob);
  };
  for (const api::CompileCacheArchive& archive : archives) {
    if (!expected.contains(archive.head.manifest_digest)) continue;
    const auto& blobs = archive.head.blobs;
    const auto missing = std::find_if(blobs.begin(), blobs.end(), is_missing);
    if (missing == blobs.end()) continue;
    const auto marked =
        parts_.registry.suspect(caller.ns(), archive.metadata.name, *missing, caller.pod->name);
    if (!marked) return unexpected(marked.error());
    if (*marked) parts_.wishes.want(caller);
  }
  return {};
}

Result<api::SweepAnswer> SweepService::sweep_begins(const Caller& caller) {
  const std::string& cache = caller.cache->metadata.name;
  const CacheLocks::Guard guard = parts_.locks.lock(caller.key());
  const auto archives = parts_.archives.list(caller.ns(), cache);
  if (!archives) return unexpected(archives.error().with("beginning a sweep"));
  api::SweepAnswer answer;
  answer.incomplete_timeout_ms = caller.cache->spec.retention.incomplete_timeout.count();
  for (const api::CompileCacheArchive& archive : *archives) {
    for (std::string& manifest : manifests_to_check(archive)) {
      answer.check.push_back(std::move(manifest));
    }
    for (std::string& manifest : distrusted_manifests(archive)) {
      answer.distrusted.push_back(std::move(manifest));
    }
    const api::ArchiveHead* head = usable_head(archive);
    if (head == nullptr) continue;
    answer.archives.push_back({archive.metadata.name, archive.key, head->manifest_digest,
                               head->generation, head->saved_at});
  }
  const auto crashing = parts_.stats.crashing(caller.key());
  answer.distrusted.insert(answer.distrusted.end(), crashing.begin(), crashing.end());
  note_heads(caller, *archives);
  const auto saves = in_flight(caller, *archives);
  if (!saves) return unexpected(saves.error().with("beginning a sweep"));
  // A commit that the previous leader let through may still be on its way, and what it condemned
  // has a time of its clock.
  const auto grace = grace_of(parts_.settings.sweep.grace, caller.cache->spec);
  if (parts_.clock.monotonic() - leading_since_ >= grace) {
    answer.deletable = deletable_digests(
        persisted(parts_.stats.condemned(caller.key()), caller.cache->status.condemned),
        referenced_digests(*archives), parts_.clock.wall(), grace);
  }
  parts_.guard.begins(caller.key(), answer.deletable, *saves);
  log_info("sweep begins", {{"reason", "job_began"},
                            {"namespace", caller.ns()},
                            {"cache", cache},
                            {"job_pod", caller.pod->name},
                            {"archives", std::to_string(answer.archives.size())},
                            {"deletable", std::to_string(answer.deletable.size())},
                            {"to_check", std::to_string(answer.check.size())}});
  return answer;
}

namespace {

LedgerFacts ledger_facts(const api::SweepRequest& request,
                         const std::vector<api::CompileCacheArchive>& archives,
                         std::vector<api::CondemnedBlob> listed, WallTime now) {
  LedgerFacts facts;
  for (const api::StoredBlob& blob : request.inventory) facts.inventory.push_back(blob.digest);
  facts.after = request.after;
  facts.up_to = request.up_to;
  facts.referenced = referenced_digests(archives);
  facts.listed = std::move(listed);
  facts.now = now;
  return facts;
}

}  // namespace

// What the Job found of the archives that it was asked to check; `archives` is as they are then.
Status SweepService::take_verdicts(const Caller& caller, const api::SweepRequest& request,
                                   std::vector<api::CompileCacheArchive>& archives) {
  for (const api::CompileCacheArchive& archive : archives) {
    // A manifest that is not this archive's changes nothing.
    for (const std::string& manifest : request.verified) {
      if (const Status done = parts_.registry.verified(archive, manifest); !done) return done;
    }
    for (const std::string& manifest : request.corrupt) {
      if (const Status done = parts_.registry.corrupt(archive, manifest); !done) return done;
    }
  }
  if (request.corrupt.empty()) return {};
  auto now = parts_.archives.list(caller.ns(), caller.cache->metadata.name);  // heads are gone
  if (!now) return unexpected(now.error().with("hearing what a sweep has checked"));
  archives = std::move(*now);
  return {};
}

// A page of what is there. Judged by itself, so that neither a repeated page nor one that another
// leader heard does harm; the Job still has its list.
Status SweepService::take_inventory(const Caller& caller, const api::SweepRequest& request) {
  const CacheLocks::Guard guard = parts_.locks.lock(caller.key());
  auto archives = parts_.archives.list(caller.ns(), caller.cache->metadata.name);
  if (!archives) return unexpected(archives.error().with("taking a sweep's inventory"));
  if (const Status taken = take_verdicts(caller, request, *archives); !taken) return taken;
  if (const Status seen = miss_blobs(caller, *archives, request); !seen) return seen;
  const auto saves = in_flight(caller, *archives);
  if (!saves) return unexpected(saves.error().with("taking a sweep's inventory"));
  LedgerFacts facts =
      ledger_facts(request, *archives, parts_.stats.condemned(caller.key()), parts_.clock.wall());
  facts.handed = parts_.guard.handed(caller.key());
  facts.saves_in_flight = !saves->empty();
  parts_.stats.set_condemned(caller.key(), condemn(facts));
  return {};
}

Status SweepService::sweep_ends(const Caller& caller, const api::SweepRequest& request) {
  const std::string& cache = caller.cache->metadata.name;
  if (!request.storage_error.empty()) {
    log_warn("the store cannot be used", {{"reason", "storage_error"},
                                          {"namespace", caller.ns()},
                                          {"cache", cache},
                                          {"error", request.storage_error}});
    return {};
  }
  const CacheLocks::Guard guard = parts_.locks.lock(caller.key());
  auto archives = parts_.archives.list(caller.ns(), cache);
  if (!archives) return unexpected(archives.error().with("ending a sweep"));
  if (const Status taken = take_verdicts(caller, request, *archives); !taken) return taken;
  if (const Status seen = miss_blobs(caller, *archives, request); !seen) return seen;
  const auto saves = in_flight(caller, *archives);
  if (!saves) return unexpected(saves.error().with("ending a sweep"));
  LedgerFacts facts =
      ledger_facts(request, *archives, parts_.stats.condemned(caller.key()), parts_.clock.wall());
  facts.handed = parts_.guard.ends(caller.key(), *saves);
  facts.saves_in_flight = !saves->empty();
  const auto condemned = condemn(facts);
  parts_.stats.set_condemned(caller.key(), condemned);
  parts_.stats.swept(caller.key(), {.time = format_time(facts.now),
                                    .freed_bytes = request.freed_bytes,
                                    .removed_incomplete = request.removed_incomplete});
  parts_.metrics.sweep(caller.ns(), cache, api::SweepOutcome::kDone);
  log_info("sweep ended", {{"reason", "job_ended"},
                           {"namespace", caller.ns()},
                           {"cache", cache},
                           {"freed_bytes", std::to_string(request.freed_bytes)},
                           {"removed_blobs", std::to_string(request.removed_blobs)},
                           {"removed_incomplete", std::to_string(request.removed_incomplete)},
                           {"condemned", std::to_string(condemned.size())},
                           {"corrupt", std::to_string(request.corrupt.size())}});
  return {};
}

}  // namespace compilecache::controller
