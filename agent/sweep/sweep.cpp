#include "agent/sweep/sweep.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "agent/index_lookup.hpp"
#include "agent/store_trouble.hpp"
#include "agent/sweep/copy.hpp"
#include "agent/sweep/trust_gate.hpp"
#include "archive/extract/extract.hpp"
#include "archive/format.hpp"
#include "base/log.hpp"
#include "base/strings.hpp"
#include "base/time_format.hpp"
#include "store/offline_index.hpp"
#include "store/upkeep.hpp"

namespace compilecache::agent {
namespace {

using std::chrono::milliseconds;

// A Job is in no hurry, and the leader may be changing.
constexpr Patience kPatience{60'000};
// Times in the index are those of the operator's clock, and of savers' without it.
constexpr std::chrono::minutes kClocksDiffer{5};
// The bounds of one message, well below what the operator takes.
constexpr size_t kBlobsInAPage = 5000;
constexpr size_t kToldFailures = 3;
constexpr size_t kBytesInAPage = 512U << 10;
static_assert(kBytesInAPage * 2 <= api::kLongestSweepMessage);

// The approximate length of its JSON.
size_t length_of(const api::FoundArchive& found) {
  size_t length = 512 + found.blobs.size() * 80;
  for (const auto& shown : found.signatures) {
    length += shown.bundle.size() + shown.payload.size() + shown.signature.size();
  }
  for (const auto& [part, value] : found.key) length += part.size() + value.size() + 8;
  return length;
}

class SweepRun {
 public:
  SweepRun(const api::AgentConfig& config, store::Store& store, store::Upkeep& upkeep,
           store::Store* source, Coordinator& coordinator, const Clock& clock)
      : config_(config),
        store_(store),
        upkeep_(upkeep),
        source_(source),
        coordinator_(coordinator),
        clock_(clock) {
    report_.cache = config.cache;
  }

  bool run() {
    if (!adopt()) return false;
    if (const auto prepared = prepare(); !prepared) return refuse(prepared.error());
    begun_ = std::chrono::floor<std::chrono::seconds>(clock_.wall());
    api::SweepRequest begin;
    begin.cache = config_.cache;
    begin.phase = api::SweepPhase::kBegin;
    const auto plan = coordinator_.sweep(begin, kPatience);
    if (!plan) {
      log_error("cannot ask what to sweep", {{"error", plan.error().message}});
      return false;
    }
    remove_incomplete(milliseconds(plan->incomplete_timeout_ms));
    delete_condemned(plan->deletable);
    for (const auto& manifest : plan->check) check(manifest);
    distrusted_.insert(plan->distrusted.begin(), plan->distrusted.end());
    for (const auto& whole : report_.verified) distrusted_.erase(whole);
    copy(plan->archives);
    rewrite_index(plan->archives);
    const auto blobs = upkeep_.list();
    if (!blobs) return give_up(blobs.error().with("listing the blobs of " + store_.describe()));
    return tell_inventory(inventory_of(*blobs, plan->archives)) && tell_end() && failures_.empty();
  }

 private:
  // In the installation's own registry a repository has the name of its CompileCache. One that is
  // created again under that name takes over what the deleted one left there.
  [[nodiscard]] bool is_recreated(const store::StoreOwner& before) const {
    const api::RegistryRef* registry = config_.store ? config_.store->registry() : nullptr;
    return registry != nullptr && registry->own && before.cluster == config_.sweep.cluster_uid &&
           before.ns == config_.ns && before.compile_cache != config_.cache_uid;
  }

  // Reported before our marker replaces the other one, so that a Job that dies in between leaves it
  // to the next one.
  bool adopt() {
    const api::RegistryRef* registry = config_.store ? config_.store->registry() : nullptr;
    const bool own = registry != nullptr && registry->own;
    if (!config_.sweep.adopt && !own) return true;
    const auto owner = upkeep_.owner();
    // Its owner decides the fate of its archives. prepare() deals with a broken
    // marker.
    if (!owner && !is_lost(owner.error()))
      return refuse(owner.error().with("asking whose " + store_.describe() + " is"));
    if (!owner) return true;
    recreated_ = is_recreated(*owner);
    const bool of_another_cluster =
        config_.sweep.adopt && owner->cluster != config_.sweep.cluster_uid;
    if (!recreated_ && !of_another_cluster) return true;
    auto found = archives_to_adopt();
    if (!found) return refuse(found.error().with("taking over " + store_.describe()));
    log_info(recreated_ ? "telling the operator of the archives of the deleted CompileCache"
                        : "telling the operator of another cluster's archives",
             {{"archives", std::to_string(found->size())}});
    size_t next = 0;
    do {
      api::SweepRequest page;
      page.phase = api::SweepPhase::kAdopt;
      size_t length = 0;
      while (next < found->size() && (page.found.empty() || length < kBytesInAPage)) {
        length += length_of((*found)[next]);
        page.found.push_back(std::move((*found)[next++]));
      }
      if (!tell(page, "cannot report archives to take over to the operator")) return false;
    } while (next < found->size());
    return true;
  }

  // Those that may be taken. Nothing is taken over where that is unknown: archives that are not
  // adopted are garbage afterwards.
  Result<std::vector<api::FoundArchive>> archives_to_adopt() {
    const auto gate = TrustGate::of(config_.sweep.trusted_keys);
    if (!gate) return unexpected(gate.error());
    const auto there = saves_there(store_);
    if (!there) return unexpected(there.error());
    std::vector<store::IndexEntry> taken;
    std::map<std::string, std::vector<api::FoundSignature>> signatures;  // by manifest
    for (const auto saves : store::by_name(*there)) {
      const auto trusted = gate->first_let_in(store_, saves);
      if (!trusted) return unexpected(trusted.error());
      if (trusted->save != nullptr) {
        signatures[trusted->save->digest] = trusted->signatures;
        taken.push_back(*trusted->save);
      } else {
        log_warn("an archive is not taken over: nobody that spec.trust names has signed it",
                 {{"archive", saves.front().name()}, {"digest", saves.front().digest}});
      }
    }
    auto archives = archives_there(store_, taken);
    if (!archives) return archives;
    for (api::FoundArchive& found : *archives) found.signatures = signatures[found.manifest_digest];
    return archives;
  }

  // Reports that the inventory is unknown. An operator that does not know the word refuses it, and
  // takes the Job for one that failed without a report.
  bool give_up(const Error& error) {
    note_failure("cannot list the blobs", error.message);
    report_.phase = api::SweepPhase::kFail;
    report_.sweep_error = join(failures_, "; ");
    tell(report_, "cannot report the failed sweep to the operator");
    return false;
  }

  // Reports why the store cannot be used.
  bool refuse(const Error& error) {
    log_error("the store cannot be used", {{"error", error.message}});
    report_.storage_error = error.message;
    report_.storage_trouble =
        api::parse_word<api::RegistryTrouble>(store_trouble(store_, error, store::Use::kWrite));
    report_.phase = api::SweepPhase::kEnd;
    tell(report_, "cannot report the unusable store to the operator");
    return false;
  }

  bool tell(api::SweepRequest& page, const std::string& otherwise) {
    page.cache = config_.cache;
    const auto told = coordinator_.sweep(page, kPatience);
    if (!told) log_error(otherwise, {{"error", told.error().message}});
    return told.has_value();
  }

  Status prepare() {
    const store::StoreOwner owner{config_.sweep.cluster_uid, config_.ns, config_.cache_uid};
    const auto prepared = upkeep_.prepare(owner, config_.sweep.adopt || recreated_);
    if (!prepared) return unexpected(not_prepared(prepared.error()));
    if (prepared->created) log_info("made the store", {{"path", store_.describe()}});
    if (prepared->adopted_from) {
      taken_over_ = true;
      log_info("took the store over", {{"from_namespace", prepared->adopted_from->ns},
                                       {"from_cluster", prepared->adopted_from->cluster}});
    }
    const auto probe = upkeep_.probe();
    if (!probe) return unexpected(probe.error().with("trying the store"));
    volume_now_ = probe->now;
    log_info("the store does what saving relies on",
             {{"free_bytes", std::to_string(probe->free_bytes)},
              {"total_bytes", std::to_string(probe->total_bytes)}});
    return {};
  }

  [[nodiscard]] Error not_prepared(const Error& why) const {
    Error error = why.with("preparing the store");
    if (why.code == ErrorCode::kConflict && config_.sweep.adopted) {
      error.message +=
          " once more: it is done once, so that two clusters do not take a store from each other "
          "forever. Decide whose it is; to take it back, set spec.storage.adopt to false, and "
          "then to true again";
    }
    return error;
  }

  void note_failure(const std::string& doing, const std::string& what) {
    log_warn(doing, {{"error", what}});
    if (failures_.size() < kToldFailures) failures_.push_back(doing + ": " + what);
  }

  void remove_incomplete(milliseconds older_than) {
    const auto removed = upkeep_.remove_incomplete(older_than, volume_now_);
    if (!removed) return note_failure("cannot remove incomplete files", removed.error().message);
    report_.removed_incomplete = static_cast<int64_t>(removed->removed);
    count(*removed);
  }

  void delete_condemned(const std::vector<std::string>& digests) {
    if (digests.empty()) return;
    const auto removed = upkeep_.remove(digests);
    if (!removed) return note_failure("cannot delete blobs", removed.error().message);
    report_.removed_blobs = static_cast<int64_t>(removed->removed);
    count(*removed);
  }

  void count(const store::SweepCounts& counts) {
    report_.freed_bytes += static_cast<int64_t>(counts.freed_bytes);
    for (const auto& failure : counts.failures) note_failure("cannot remove a file", failure);
  }

  // A missing blob is not corrupt, but as little whole.
  void check(const std::string& manifest) {
    const auto verified = archive::verify(store_, manifest);
    if (verified) {
      report_.verified.push_back(manifest);
      log_info("a suspect archive is whole", {{"digest", manifest}});
      return;
    }
    const ErrorCode code = verified.error().code;
    // Anything else (another release's archive, no memory) says nothing of its bytes.
    if (code != ErrorCode::kCorrupt && code != ErrorCode::kNotFound &&
        code != ErrorCode::kTooLarge) {
      return note_failure("cannot check an archive", verified.error().message);
    }
    report_.corrupt.push_back(manifest);
    log_warn("an archive is corrupt", {{"digest", manifest}, {"error", verified.error().message}});
  }

  // After what was condemned is deleted, so that nothing of it is counted on. Whether it succeeds
  // is the operator's to remember, and no matter of the sweep.
  void copy(const std::vector<api::SweepArchive>& archives) {
    if (source_ == nullptr) return;
    const auto gate = TrustGate::of(config_.sweep.trusted_keys);
    if (!gate) return tell_copy_end({.error = gate.error().message});
    CopyRules rules{.trust = *gate};
    for (const auto& archive : archives) rules.known.insert(archive.key);
    rules.tell = [this](api::FoundArchive found) { return tell_copied(std::move(found)); };
    const milliseconds time = config_.sweep.copy_time;
    rules.in_time = [this, time, began = clock_.monotonic()] {
      return time == milliseconds(0) || clock_.monotonic() - began < time;
    };
    tell_copy_end(copy_archives(*source_, store_, rules));
  }

  void tell_copy_end(const CopiedArchives& copied) {
    if (!copied.error.empty()) log_error("cannot copy all archives", {{"error", copied.error}});
    api::SweepRequest last;
    last.phase = api::SweepPhase::kCopy;
    last.copied_from = config_.sweep.copy_name;
    last.copied_archives = copied.there;
    last.copy_left_out = copied.left_out;
    last.copy_error = copied.error;
    tell(last, "cannot report the end of the copying to the operator");
  }

  Result<bool> tell_copied(api::FoundArchive found) {
    api::SweepRequest page;
    page.cache = config_.cache;
    page.phase = api::SweepPhase::kCopy;
    page.found.push_back(std::move(found));
    const auto told = coordinator_.sweep(page, kPatience);
    if (!told) return unexpected(told.error());
    return told->taken > 0;
  }

  void rewrite_index(const std::vector<api::SweepArchive>& archives) {
    store::OfflineIndex* index = store_.offline_index();
    if (index == nullptr) return;
    std::vector<store::IndexEntry> entries;
    for (const auto& known : archives) {
      if (known.manifest_digest.empty()) continue;
      const auto manifest = archive::read_manifest(store_, known.manifest_digest);
      if (!manifest && !is_lost(manifest.error()))
        return note_failure("cannot rewrite the index", manifest.error().message);
      if (!manifest) {
        log_warn("an archive is not on the volume",
                 {{"archive", known.name}, {"error", manifest.error().message}});
        continue;
      }
      entries.push_back({known.manifest_digest, manifest->size,
                         index_annotations(known.name, known.generation, known.saved_at, known.key,
                                           archive::compile_seconds(manifest->annotations))});
    }
    // The earlier owner's other archives do not count: the plan has those that were taken.
    Status written;
    if (!taken_over_) written = keep_later_entries(*index, archives, entries);
    if (written) written = index->write_index(entries);
    if (!written) note_failure("cannot rewrite the index", written.error().message);
  }

  // Savers commit while we sweep, and note it in the index: what is later than the plan stays.
  // Without what is there none is written: their entries would be lost.
  Status keep_later_entries(const store::OfflineIndex& index,
                            const std::vector<api::SweepArchive>& archives,
                            std::vector<store::IndexEntry>& entries) const {
    auto read = index.read_index();
    if (!read) return unexpected(read.error());
    std::map<std::string, WallTime> planned;
    for (const auto& known : archives) {
      if (known.manifest_digest.empty()) continue;
      planned[known.name] = parse_time(known.saved_at).value_or(begun_);
    }
    for (auto& present : read->entries) {
      const auto plan = planned.find(present.name());
      // Times in the index are whole seconds.
      const bool later =
          plan == planned.end() ? saved_at(present) >= begun_ : saved_at(present) > plan->second;
      // Nobody has saved in the future; such an entry would be later than any plan forever.
      const bool possible = saved_at(present) <= clock_.wall() + kClocksDiffer;
      const bool kept = !present.name().empty() && !distrusted_.contains(present.digest);
      if (!kept || !later || !possible) continue;
      std::erase_if(entries, [&](const auto& entry) { return entry.name() == present.name(); });
      entries.push_back(std::move(present));
    }
    return {};
  }

  static WallTime saved_at(const store::IndexEntry& entry) {
    const auto found = entry.annotations.find(archive::kAnnotationSavedAt);
    if (found == entry.annotations.end()) return {};
    return parse_time(found->second).value_or(WallTime{});
  }

  // By digest, all of them.
  api::Inventory inventory_of(const std::vector<store::StoredBlob>& blobs,
                              const std::vector<api::SweepArchive>& archives) {
    api::Inventory all;
    std::set<std::string> kept, present;
    for (const auto& blob : blobs) {
      present.insert(blob.digest);
      if (blob.kept) {
        kept.insert(blob.digest);
      } else {
        all.blobs.push_back({blob.digest, static_cast<int64_t>(blob.size)});
      }
    }
    for (const auto& known : archives) {
      if (!known.manifest_digest.empty() && !present.contains(known.manifest_digest))
        look_for(known.manifest_digest, kept, all.unread);
    }
    all.kept.assign(kept.begin(), kept.end());
    std::erase_if(all.blobs, [&](const auto& blob) { return kept.contains(blob.digest); });
    std::sort(all.blobs.begin(), all.blobs.end(),
              [](const auto& a, const auto& b) { return a.digest < b.digest; });
    return all;
  }

  // A registry lists archives whose tag can be read; without one an archive is as good.
  void look_for(const std::string& head, std::set<std::string>& kept,
                std::vector<std::string>& unread) {
    const auto manifest = archive::read_manifest(store_, head);
    if (!manifest && is_lost(manifest.error())) return;
    if (!manifest) {
      log_warn("nobody knows whether an archive is there",
               {{"digest", head}, {"error", manifest.error().message}});
      return unread.push_back(head);
    }
    kept.insert({head, manifest->config.digest});
    for (const auto& layer : manifest->layers) kept.insert(layer.digest);
  }

  // The part that does not fit the last message goes before it, in pages. The first has the
  // verdicts: blobs of a corrupt archive are garbage.
  bool tell_inventory(api::Inventory all) {
    blobs_ = all.blobs.size() + all.kept.size();
    std::string after;
    bool first = true;
    auto blob = all.blobs.begin();
    auto kept = all.kept.begin();
    for (;;) {
      api::Inventory page{.unread = all.unread, .after = after};
      for (size_t count = 0; count < kBlobsInAPage; ++count) {
        if (blob == all.blobs.end() && kept == all.kept.end()) break;
        const bool is_kept =
            blob == all.blobs.end() || (kept != all.kept.end() && *kept < blob->digest);
        page.up_to = is_kept ? *kept : blob->digest;
        if (is_kept) {
          page.kept.push_back(std::move(*kept++));
        } else {
          page.blobs.push_back(std::move(*blob++));
        }
      }
      if (blob == all.blobs.end() && kept == all.kept.end()) {
        page.up_to.clear();
        report_.inventory = std::move(page);
        return true;
      }
      after = page.up_to;
      if (!tell_page(std::move(page), std::exchange(first, false))) return false;
    }
  }

  bool tell_page(api::Inventory page, bool first) {
    api::SweepRequest message{.phase = api::SweepPhase::kInventory, .inventory = std::move(page)};
    if (first) {
      message.verified = report_.verified;
      message.corrupt = report_.corrupt;
    }
    return tell(message, "cannot report the inventory to the operator");
  }

  bool tell_end() {
    report_.phase = api::SweepPhase::kEnd;
    report_.sweep_error = join(failures_, "; ");
    if (!tell(report_, "cannot report the sweep to the operator")) return false;
    log_info("swept", {{"blobs", std::to_string(blobs_)},
                       {"removed_blobs", std::to_string(report_.removed_blobs)},
                       {"removed_incomplete", std::to_string(report_.removed_incomplete)},
                       {"freed_bytes", std::to_string(report_.freed_bytes)},
                       {"corrupt", std::to_string(report_.corrupt.size())}});
    return true;
  }

  const api::AgentConfig& config_;
  store::Store& store_;
  store::Upkeep& upkeep_;
  store::Store* const source_;
  Coordinator& coordinator_;
  const Clock& clock_;
  api::SweepRequest report_;
  std::set<std::string> distrusted_;  // manifests that the index must not name
  WallTime begun_{};                  // when the operator was asked, in whole seconds
  bool recreated_ = false;            // the store is a deleted CompileCache's of the same name
  size_t blobs_ = 0;
  bool taken_over_ = false;            // the store was another owner's until now
  WallTime volume_now_{};              // by its own clock, once it was tried
  std::vector<std::string> failures_;  // the first few
};

}  // namespace

bool run_sweep(const api::AgentConfig& config, store::Store& store, store::Store* source,
               Coordinator& coordinator, const Clock& clock) {
  if (store::Upkeep* upkeep = store.upkeep()) {
    return SweepRun(config, store, *upkeep, source, coordinator, clock).run();
  }
  log_error("cannot sweep", {{"error", store.describe() + " is not looked after from here"}});
  return false;
}

}  // namespace compilecache::agent
