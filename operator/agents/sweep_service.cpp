#include "operator/agents/sweep_service.hpp"

#include <algorithm>
#include <utility>

#include "base/base64.hpp"
#include "base/log.hpp"
#include "base/time_format.hpp"
#include "operator/agents/agent_words.hpp"
#include "operator/archives/adoption.hpp"
#include "operator/archives/archive_trust.hpp"
#include "operator/registry/registry_quota.hpp"
#include "operator/storage/sweep_ledger.hpp"
#include "store/trust/trusted_keys.hpp"

namespace compilecache::controller {
namespace {

// Longer than any request to the API server takes.
constexpr std::chrono::seconds kSettle{90};
// A claim or a repository, a folder and a name.
constexpr size_t kCopySourceLength = 2048;

// Blobs that are in the API server's status and known here: only these may be deleted,
// since the next leader will know it too.
std::vector<api::CondemnedBlob> persisted(const std::vector<api::CondemnedBlob>& listed,
                                          const std::vector<api::CondemnedBlob>& in_status) {
  std::set<std::string> written;
  for (const api::CondemnedBlob& blob : in_status) written.insert(blob.digest);
  std::vector<api::CondemnedBlob> both = listed;
  std::erase_if(both, [&](const auto& blob) { return !written.contains(blob.digest); });
  return both;
}

// Whether one of the keys of spec.trust has signed the archive: the Job looks before it copies, and
// shows what it found.
bool is_vouched_for(const api::FoundArchive& found, const store::TrustedKeys& keys) {
  std::vector<store::Signature> signatures;
  for (const api::FoundSignature& shown : found.signatures) {
    const auto signed_text = base64_decode(shown.bundle.empty() ? shown.payload : shown.bundle);
    if (!signed_text) continue;
    auto signature = shown.bundle.empty() ? store::simple_signature(*signed_text, shown.signature)
                                          : store::bundle_signature(*signed_text);
    if (signature) signatures.push_back(std::move(*signature));
  }
  return keys.vouch_for(found.manifest_digest, signatures);
}

// The Job offers only what the keys that it was created with vouch for. If one archive is not
// vouched for, the keys were changed meanwhile. Then the message fails, so that the archive does
// not count as left out, and another Job looks for its signatures with the new keys.
Status all_vouched_for(const api::CompileCache& cache,
                       const std::vector<api::FoundArchive>& found_archives) {
  const auto& keys = cache.spec.trust.public_keys;
  if (keys.empty()) return {};
  const auto trusted = store::TrustedKeys::parse(keys);
  if (!trusted) return unexpected(trusted.error());
  for (const api::FoundArchive& found : found_archives) {
    if (is_vouched_for(found, *trusted)) continue;
    return fail(ErrorCode::kForbidden,
                "archive " + cut(found.manifest_digest, 80) +
                    " came without a signature by a key of spec.trust.publicKeys, which changed "
                    "while the Job ran; the next Job looks for one");
  }
  return {};
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
    case api::SweepPhase::kFail:
      done = sweep_ends(caller, request);
      break;
  }
  if (!done) return unexpected(done.error());
  const bool counts = request.phase == api::SweepPhase::kBegin ||
                      request.phase == api::SweepPhase::kEnd ||
                      request.phase == api::SweepPhase::kFail;
  if (counts && answer && parts_.reported) parts_.reported(*caller.pod, request);
  return answer;
}

// Doing it twice does what doing it once does: the Job may die before its marker is in the store.
Status SweepService::adopt(const Caller& caller, const api::SweepRequest& request) {
  const api::CompileCache& cache = *caller.cache;
  // There a CompileCache that is created again takes over what was left under its name.
  const api::RegistryRef* registry = caller.store ? caller.store->registry() : nullptr;
  const bool own = registry != nullptr && registry->own;
  if (!own && (!cache.spec.storage || !cache.spec.storage->adopt)) {
    return fail(ErrorCode::kForbidden, "taking over a store: spec.storage.adopt of CompileCache " +
                                           cache.metadata.name + " is false");
  }
  const CacheLocks::Guard guard = parts_.locks.lock(caller.key());
  std::set<std::string> condemned;
  for (const auto& blob : parts_.stats.condemned(caller.key())) condemned.insert(blob.digest);
  const auto adopted = take_all(caller, request.found, condemned);
  if (!adopted) return unexpected(adopted.error());
  log_info("took over archives", {{"reason", "adopted"},
                                  {"namespace", caller.ns()},
                                  {"cache", cache.metadata.name},
                                  {"archives", std::to_string(*adopted)}});
  return {};
}

// Copied blobs are not compared with condemned ones here: an earlier attempt may have left it,
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

// Manifests that made pods crash, here or at their source, or that are not trusted there.
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
  const auto full =
      over_quota(*caller.cache, registry_use(parts_.view, *caller.cache, parts_.usage),
                 parts_.settings.registry.namespace_share);
  if (!full) return {};
  return fail(ErrorCode::kForbidden, full->message);
}

void SweepService::note_copied(const Caller& caller, const api::SweepRequest& last) const {
  log_info("copied archives", {{"reason", "copied"},
                               {"namespace", caller.ns()},
                               {"cache", caller.cache->metadata.name},
                               {"from", cut(last.copied_from, kCopySourceLength)},
                               {"archives", std::to_string(last.copied_archives)},
                               {"left_out", std::to_string(last.copy_left_out)},
                               {"error", cut(last.copy_error, kMessageLength)}});
  parts_.stats.copied(caller.key(), {.from = cut(last.copied_from, kCopySourceLength),
                                     .time = format_time(parts_.clock.wall()),
                                     .archives = last.copied_archives,
                                     .left_out = last.copy_left_out,
                                     .error = cut(last.copy_error, kMessageLength)});
}

// How many of them there are now.
Result<int64_t> SweepService::take_all(const Caller& caller,
                                       const std::vector<api::FoundArchive>& found_archives,
                                       const std::set<std::string>& unwanted) {
  if (const Status vouched = all_vouched_for(*caller.cache, found_archives); !vouched)
    return unexpected(vouched.error().with("taking archives in"));
  int64_t there = 0;
  for (const api::FoundArchive& found : found_archives) {
    const auto archive = adopted_archive(*caller.cache, caller.store, found, parts_.clock.wall());
    Status taken = archive ? take_in(*archive, unwanted) : Status(unexpected(archive.error()));
    // Garbage that the API server did not take stays garbage; anything else is tried again.
    if (!taken && taken.error().code != ErrorCode::kInvalid) return unexpected(taken.error());
    if (taken) {
      ++there;
    } else {
      log_warn("an archive is not taken over", {{"reason", "not_adoptable"},
                                                {"namespace", caller.ns()},
                                                {"cache", caller.cache->metadata.name},
                                                {"digest", cut(found.manifest_digest, 80)},
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
        // The archive that was saved here is newer.
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

// A head whose blobs the Job did not find is handed out no more until the next one has read it,
// which its condition makes the operator start. A page tells of the blobs within its bounds alone.
Status SweepService::miss_blobs(const Caller& caller,
                                const std::vector<api::CompileCacheArchive>& archives,
                                const api::Inventory& page) {
  std::set<std::string> expected;
  {
    const MutexLock lock(mutex_);
    expected = page.up_to.empty() ? std::exchange(heads_at_begin_[caller.key()], {})
                                  : heads_at_begin_[caller.key()];
  }
  for (const std::string& manifest : page.unread) expected.erase(manifest);
  std::set<std::string> present(page.kept.begin(), page.kept.end());
  for (const api::StoredBlob& blob : page.blobs) present.insert(blob.digest);
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
    const api::ArchiveHead* head =
        usable_head(archive, caller.cache->spec.save.allowed_service_accounts);
    if (head == nullptr) continue;
    answer.archives.push_back({archive.metadata.name, archive.key, head->manifest_digest,
                               head->generation, head->saved_at});
  }
  const auto crashing = parts_.stats.crashing(caller.key());
  answer.distrusted.insert(answer.distrusted.end(), crashing.begin(), crashing.end());
  note_heads(caller, *archives);
  {
    const MutexLock lock(mutex_);
    told_[caller.key()] = {caller.pod->owner->uid, {answer.check.begin(), answer.check.end()}};
  }
  const auto saves = in_flight(caller, *archives);
  if (!saves) return unexpected(saves.error().with("beginning a sweep"));
  // A commit that the previous leader let through may still be on its way, and what it condemned
  // has a time of its clock.
  const auto grace = grace_of(parts_.settings.sweep.grace, caller.cache->spec);
  // A Job that the next leader does not know would not be waited for.
  const bool job_is_noted = caller.cache->status.sweep_job == caller.pod->owner->uid;
  if (job_is_noted && parts_.clock.monotonic() - leading_since_ >= grace) {
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

LedgerFacts ledger_facts(const api::Inventory& page,
                         const std::vector<api::CompileCacheArchive>& archives,
                         std::vector<api::CondemnedBlob> listed, WallTime now) {
  LedgerFacts facts;
  for (const api::StoredBlob& blob : page.blobs) facts.inventory.push_back(blob.digest);
  facts.kept.insert(page.kept.begin(), page.kept.end());
  facts.after = page.after;
  facts.up_to = page.up_to;
  facts.referenced = referenced_digests(archives);
  facts.listed = std::move(listed);
  facts.now = now;
  return facts;
}

}  // namespace

// Under a leader that did not give the Job its list, the archives that wait for a check now are its
// list.
bool SweepService::was_told_to_check(const Caller& caller,
                                     const std::vector<api::CompileCacheArchive>& archives,
                                     const std::string& manifest) {
  {
    const MutexLock lock(mutex_);
    const auto told = told_.find(caller.key());
    if (told != told_.end() && told->second.job == caller.pod->owner->uid) {
      return told->second.check.contains(manifest);
    }
  }
  return std::any_of(archives.begin(), archives.end(), [&](const auto& archive) {
    const auto waiting = manifests_to_check(archive);
    return std::find(waiting.begin(), waiting.end(), manifest) != waiting.end();
  });
}

// The Job's findings of the archives that it was asked to check; `archives` is as they are then.
Status SweepService::take_verdicts(const Caller& caller, const api::SweepRequest& request,
                                   std::vector<api::CompileCacheArchive>& archives) {
  std::vector<std::string> verified = request.verified, corrupt = request.corrupt;
  const auto not_asked = [&](const std::string& manifest) {
    if (was_told_to_check(caller, archives, manifest)) return false;
    log_warn("a verdict on a blob that no sweep was asked to check is ignored",
             {{"reason", "not_asked"},
              {"namespace", caller.ns()},
              {"pod", caller.pod->name},
              {"manifest", cut(manifest, kReasonLength)}});
    return true;
  };
  std::erase_if(verified, not_asked);
  std::erase_if(corrupt, not_asked);
  for (const api::CompileCacheArchive& archive : archives) {
    // A manifest that is not this archive's changes nothing.
    for (const std::string& manifest : verified) {
      if (const Status done = parts_.registry.verified(archive, manifest); !done) return done;
    }
    for (const std::string& manifest : corrupt) {
      if (const Status done = parts_.registry.corrupt(archive, manifest); !done) return done;
    }
  }
  {
    // The Job has just read all of them, whatever its list says.
    const MutexLock lock(mutex_);
    for (const std::string& manifest : verified) heads_at_begin_[caller.key()].erase(manifest);
  }
  if (corrupt.empty()) return {};
  auto now = parts_.archives.list(caller.ns(), caller.cache->metadata.name);  // heads were deleted
  if (!now) return unexpected(now.error().with("hearing what a sweep has checked"));
  archives = std::move(*now);
  return {};
}

Result<SweepService::Heard> SweepService::hear(const Caller& caller,
                                               const api::SweepRequest& request) {
  auto archives = parts_.archives.list(caller.ns(), caller.cache->metadata.name);
  if (!archives) return unexpected(archives.error());
  if (const Status taken = take_verdicts(caller, request, *archives); !taken)
    return unexpected(taken.error());
  if (request.inventory) {
    if (const Status seen = miss_blobs(caller, *archives, *request.inventory); !seen)
      return unexpected(seen.error());
  }
  auto saves = in_flight(caller, *archives);
  if (!saves) return unexpected(saves.error());
  return Heard{std::move(*archives), std::move(*saves)};
}

void SweepService::condemn_unneeded(const Caller& caller, const api::Inventory& page,
                                    const Heard& heard, std::set<std::string> handed) {
  LedgerFacts facts =
      ledger_facts(page, heard.archives, parts_.stats.condemned(caller.key()), parts_.clock.wall());
  facts.handed = std::move(handed);
  facts.saves_in_flight = !heard.saves.empty();
  parts_.stats.set_condemned(caller.key(), condemn(facts));
}

// A page of what is there. Judged by itself, so that neither a repeated page nor one that another
// leader received does harm; the Job still has its list.
Status SweepService::take_inventory(const Caller& caller, const api::SweepRequest& request) {
  if (!request.inventory)
    return fail(ErrorCode::kInvalid, "taking a sweep's inventory: the message has none");
  const CacheLocks::Guard guard = parts_.locks.lock(caller.key());
  const auto heard = hear(caller, request);
  if (!heard) return unexpected(heard.error().with("taking a sweep's inventory"));
  condemn_unneeded(caller, *request.inventory, *heard, parts_.guard.handed(caller.key()));
  return {};
}

// Without an inventory nothing is concluded from what the Job did not name: no head is missing a
// blob, and condemned blobs stay so.
Status SweepService::sweep_ends(const Caller& caller, const api::SweepRequest& request) {
  const std::string& cache = caller.cache->metadata.name;
  if (!request.storage_error.empty()) {
    log_warn("the store cannot be used", {{"reason", "storage_error"},
                                          {"namespace", caller.ns()},
                                          {"cache", cache},
                                          {"error", cut(request.storage_error, kMessageLength)}});
    return {};
  }
  const bool failed = request.phase == api::SweepPhase::kFail;
  const CacheLocks::Guard guard = parts_.locks.lock(caller.key());
  const auto heard = hear(caller, request);
  if (!heard) return unexpected(heard.error().with("ending a sweep"));
  auto handed = parts_.guard.ends(caller.key(), heard->saves);
  if (request.inventory) condemn_unneeded(caller, *request.inventory, *heard, std::move(handed));
  if (!failed) {
    parts_.stats.swept(caller.key(), {.time = format_time(parts_.clock.wall()),
                                      .freed_bytes = request.freed_bytes,
                                      .removed_incomplete = request.removed_incomplete});
  }
  parts_.metrics.sweep(caller.ns(), cache,
                       failed ? api::SweepOutcome::kFailed : api::SweepOutcome::kDone);
  log_end(caller, request);
  return {};
}

void SweepService::log_end(const Caller& caller, const api::SweepRequest& request) const {
  log_info("sweep ended",
           {{"reason", request.phase == api::SweepPhase::kFail ? "job_failed" : "job_ended"},
            {"namespace", caller.ns()},
            {"cache", caller.cache->metadata.name},
            {"freed_bytes", std::to_string(request.freed_bytes)},
            {"removed_blobs", std::to_string(request.removed_blobs)},
            {"removed_incomplete", std::to_string(request.removed_incomplete)},
            {"listed", request.inventory ? "true" : "false"},
            {"condemned", std::to_string(parts_.stats.condemned(caller.key()).size())},
            {"corrupt", std::to_string(request.corrupt.size())},
            {"error", request.sweep_error}});
}

}  // namespace compilecache::controller
