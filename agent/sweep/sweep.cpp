#include "agent/sweep/sweep.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "agent/index_lookup.hpp"
#include "agent/store_trouble.hpp"
#include "agent/sweep/copy.hpp"
#include "agent/sweep/trust_gate.hpp"
#include "archive/extract/extract.hpp"
#include "archive/format.hpp"
#include "base/log.hpp"
#include "base/time_format.hpp"
#include "store/offline_index.hpp"
#include "store/upkeep.hpp"

namespace compilecache::agent {
namespace {

using std::chrono::milliseconds;

// A Job is in no hurry, and the leader may be changing.
constexpr Patience kPatience{60'000};
// The bounds of one message, well below what the operator takes.
constexpr size_t kBlobsInAPage = 5000;
constexpr size_t kBytesInAPage = 512U << 10;
static_assert(kBytesInAPage * 2 <= api::kLongestSweepMessage);

// The approximate length of its JSON.
size_t length_of(const api::FoundArchive& found) {
  size_t length = 512 + found.blobs.size() * 80;
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
    return take_inventory() && tell_end() && !failed_;
  }

 private:
  // Told before our marker replaces the other cluster's, so that a Job that dies in between leaves
  // it to the next one.
  bool adopt() {
    if (!config_.sweep.adopt) return true;
    const auto owner = upkeep_.owner();
    // Whose it is decides what becomes of its archives. A marker that is broken is prepare()'s
    // matter.
    if (!owner && !is_lost(owner.error()))
      return refuse(owner.error().with("asking whose " + store_.describe() + " is"));
    if (!owner || owner->cluster == config_.sweep.cluster_uid) return true;
    auto found = archives_to_adopt();
    if (!found) return refuse(found.error().with("taking over " + store_.describe()));
    log_info("telling the operator of another cluster's archives",
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
      if (!tell(page, "cannot tell the operator of another cluster's archives")) return false;
    } while (next < found->size());
    return true;
  }

  // Those that may be taken. Nothing is taken over where that cannot be told: what is not adopted
  // is garbage afterwards.
  Result<std::vector<api::FoundArchive>> archives_to_adopt() {
    const auto gate = TrustGate::of(config_.sweep.trusted_keys);
    if (!gate) return unexpected(gate.error());
    auto there = archives_there(store_);
    if (!there) return unexpected(there.error());
    std::vector<api::FoundArchive> taken;
    for (auto& found : *there) {
      const auto trusted = gate->lets_in(store_, found.manifest_digest);
      if (!trusted) return unexpected(trusted.error());
      if (*trusted) {
        taken.push_back(std::move(found));
      } else {
        log_warn("an archive is not taken over: nobody that spec.trust names has signed it",
                 {{"digest", found.manifest_digest}});
      }
    }
    return taken;
  }

  // Tells why the store cannot be used.
  bool refuse(const Error& error) {
    log_error("the store cannot be used", {{"error", error.message}});
    report_.storage_error = error.message;
    report_.storage_trouble =
        api::parse_word<api::RegistryTrouble>(store_trouble(store_, error, store::Use::kWrite));
    tell_end();
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
    const auto prepared = upkeep_.prepare(owner, config_.sweep.adopt);
    if (!prepared) return unexpected(prepared.error().with("preparing the store"));
    if (prepared->created) log_info("made the store", {{"path", store_.describe()}});
    if (prepared->adopted_from) {
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

  void note_failure(const std::string& doing, const std::string& what) {
    log_warn(doing, {{"error", what}});
    failed_ = true;
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

  // A blob that is gone is not corrupt, but as little whole.
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
    tell(last, "cannot tell the operator how the copying ended");
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
      if (!manifest) {
        log_warn("an archive is not on the volume",
                 {{"archive", known.name}, {"error", manifest.error().message}});
        continue;
      }
      entries.push_back({known.manifest_digest, manifest->size,
                         index_annotations(known.name, known.generation, known.saved_at, known.key,
                                           archive::compile_seconds(manifest->annotations))});
    }
    keep_later_entries(archives, entries);
    if (const auto written = index->write_index(entries); !written) {
      note_failure("cannot rewrite the index", written.error().message);
    }
  }

  // Savers commit while we sweep, and note it in the index: what is later than the plan stays.
  void keep_later_entries(const std::vector<api::SweepArchive>& archives,
                          std::vector<store::IndexEntry>& entries) const {
    std::map<std::string, WallTime> planned;
    for (const auto& known : archives) {
      if (known.manifest_digest.empty()) continue;
      planned[known.name] = parse_time(known.saved_at).value_or(begun_);
    }
    for (auto& present : store::read_index(store_).entries) {
      const auto plan = planned.find(present.name());
      // Times in the index are whole seconds.
      const bool later =
          plan == planned.end() ? saved_at(present) >= begun_ : saved_at(present) > plan->second;
      if (present.name().empty() || !later || distrusted_.contains(present.digest)) continue;
      std::erase_if(entries, [&](const auto& entry) { return entry.name() == present.name(); });
      entries.push_back(std::move(present));
    }
  }

  static WallTime saved_at(const store::IndexEntry& entry) {
    const auto found = entry.annotations.find(archive::kAnnotationSavedAt);
    if (found == entry.annotations.end()) return {};
    return parse_time(found->second).value_or(WallTime{});
  }

  // What does not fit the last message goes before it, in pages, and with the first what was
  // checked: blobs of a corrupt archive are garbage.
  bool take_inventory() {
    auto blobs = upkeep_.list();
    if (!blobs) {
      note_failure("cannot list the blobs", blobs.error().message);
      return true;
    }
    blobs_ = blobs->size();
    std::sort(blobs->begin(), blobs->end(),
              [](const auto& a, const auto& b) { return a.digest < b.digest; });
    api::SweepRequest page;
    page.verified = report_.verified;
    page.corrupt = report_.corrupt;
    for (const auto& blob : *blobs) {
      if (page.inventory.size() == kBlobsInAPage) {
        page.phase = api::SweepPhase::kInventory;
        page.up_to = page.inventory.back().digest;
        if (!tell(page, "cannot tell the operator what is there")) return false;
        page = {.after = page.up_to};
      }
      page.inventory.push_back({blob.digest, static_cast<int64_t>(blob.size)});
    }
    report_.inventory = std::move(page.inventory);
    report_.after = page.after;
    return true;
  }

  bool tell_end() {
    report_.phase = api::SweepPhase::kEnd;
    if (!tell(report_, "cannot tell the operator of the sweep")) return false;
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
  size_t blobs_ = 0;
  WallTime volume_now_{};  // by its own clock, once it was tried
  bool failed_ = false;
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
