#include "operator/caches/cache_stats.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "operator/archives/effect_counters.hpp"

namespace compilecache::controller {
namespace {

int64_t& load_counter_of(api::LoadCounters& counters, api::LoadOutcome load) {
  switch (load) {
    case api::LoadOutcome::kExact:
      return counters.exact;
    case api::LoadOutcome::kCompatible:
      return counters.compatible;
    case api::LoadOutcome::kMissing:
      return counters.missing;
    case api::LoadOutcome::kFailed:
      break;
  }
  return counters.failed;
}

void count_load(api::LoadCounters& counters, api::LoadOutcome load, int64_t by) {
  int64_t& counter = load_counter_of(counters, load);
  counter = std::max<int64_t>(0, counter + by);
}

void count_effect(api::EffectCounters& counters, api::Effect effect, int64_t by) {
  int64_t& counter = counter_of(counters, effect);
  counter = std::max<int64_t>(0, counter + by);
}

constexpr size_t kMostCrashing = 32;
// More than a digest has; pods have named longer ones to earlier releases.
constexpr size_t kLongestManifest = 128;

// Replaces what was known of its image; the oldest are dropped first.
void set_owner(std::vector<api::FileOwner>& owners, api::FileOwner owner) {
  std::erase_if(owners, [&](const auto& known) { return known.image == owner.image; });
  if (owners.size() >= api::kMostFileOwners) owners.erase(owners.begin());
  owners.push_back(std::move(owner));
}

// Its counts under another CompileCache belong to that one.
void belong(CountedPod& pod, const std::string& cache) {
  if (pod.cache != cache) pod = {.cache = cache};
}

bool went_well(const api::RecentPod& pod) {
  return pod.load != api::to_string(api::LoadOutcome::kFailed) &&
         pod.effect != api::to_string(api::Effect::kNone);
}

}  // namespace

CacheStats::CacheStats(size_t recent_limit, PodLedger& pods)
    : recent_limit_(std::max<size_t>(1, recent_limit)), pods_(pods) {}

void CacheStats::on_change(ChangeHandler handler) { on_change_ = std::move(handler); }

void CacheStats::changed(const std::string& cache) const {
  if (on_change_) on_change_(cache);
}

void CacheStats::seed(const std::string& cache, const api::CompileCacheStatus& status) {
  const MutexLock lock(mutex_);
  Entry& entry = entries_[cache];
  if (entry.seeded) return;
  entry.seeded = true;
  api::CompileCacheStatus& totals = entry.totals;
  for (const auto& load : api::kWords<api::LoadOutcome>) {
    api::LoadCounters before = status.loads;
    count_load(totals.loads, load.value, load_counter_of(before, load.value));
  }
  for (const auto& effect : api::kWords<api::Effect>) {
    api::EffectCounters before = status.effect;
    count_effect(totals.effect, effect.value, counter_of(before, effect.value));
  }
  totals.saves.committed += status.saves.committed;
  totals.saves.unchanged += status.saves.unchanged;
  totals.saves.refused += status.saves.refused;
  totals.saves.failed += status.saves.failed;
  std::vector<api::RecentPod> recent = status.recent.list();
  // Pods that are still running may revise what they said to the previous leader.
  for (const api::RecentPod& pod : recent) {
    pods_.edit<CountedPod>(pod.pod_uid, [&](CountedPod& counted) {
      if (counted.cache == cache) return;
      counted = {.cache = cache,
                 .load = api::parse_word<api::LoadOutcome>(pod.load),
                 .archive = pod.archive,
                 .effect = api::parse_word<api::Effect>(pod.effect),
                 .seconds_saved = static_cast<double>(pod.saved_milliseconds) / 1000,
                 .worth = {},
                 .generation = pod.generation};
    });
  }
  const std::vector<api::RecentPod> newer = totals.recent.list();
  recent.insert(recent.end(), newer.begin(), newer.end());
  set_recent(entry, std::move(recent));
  if (totals.last_save_time.empty()) totals.last_save_time = status.last_save_time;
  if (totals.last_sweep.time.empty()) totals.last_sweep = status.last_sweep;
  if (totals.last_copy.time.empty()) totals.last_copy = status.last_copy;
  if (totals.condemned.empty()) totals.condemned = status.condemned;
  const std::vector<std::string> seen = std::exchange(totals.crashing, status.crashing);
  std::erase_if(totals.crashing,
                [](const std::string& manifest) { return manifest.size() > kLongestManifest; });
  for (const std::string& manifest : seen) add_crashing(totals.crashing, manifest);
  for (api::FileOwner& owner : std::exchange(totals.file_owners, status.file_owners)) {
    set_owner(totals.file_owners, std::move(owner));
  }
  entry.seconds_saved += static_cast<double>(status.seconds_saved);
}

void CacheStats::fill(const std::string& cache, api::CompileCacheStatus& status) const {
  const MutexLock lock(mutex_);
  const auto found = entries_.find(cache);
  if (found == entries_.end() || !found->second.seeded) return;
  const api::CompileCacheStatus& totals = found->second.totals;
  status.loads = totals.loads;
  status.effect = totals.effect;
  status.saves = totals.saves;
  status.recent = totals.recent;
  status.last_save_time = totals.last_save_time;
  status.last_sweep = totals.last_sweep;
  status.last_copy = totals.last_copy;
  status.condemned = totals.condemned;
  status.crashing = totals.crashing;
  status.file_owners = totals.file_owners;
  status.seconds_saved = std::llround(found->second.seconds_saved);
}

void CacheStats::forget(const std::string& cache) {
  const MutexLock lock(mutex_);
  entries_.erase(cache);
  pods_.drop_if<CountedPod>([&](const CountedPod& pod) { return pod.cache == cache; });
}

bool CacheStats::revise(Entry& entry, const std::string& pod_uid, Missing missing,
                        const RecentChange& change) const {
  std::vector<api::RecentPod> recent = entry.totals.recent.list();
  auto pod = std::find_if(recent.begin(), recent.end(),
                          [&](const auto& known) { return known.pod_uid == pod_uid; });
  if (pod == recent.end()) {
    if (missing == Missing::kLeave) return false;
    pod = recent.insert(pod, api::RecentPod{});
    pod->pod_uid = pod_uid;
  }
  const api::RecentPod before = *pod;
  change(*pod);
  if (*pod == before) return false;
  set_recent(entry, std::move(recent));
  return true;
}

// Oldest first out, but pods that did not go well stay longer: up to three quarters of the list.
void CacheStats::set_recent(Entry& entry, std::vector<api::RecentPod> recent) const {
  while (recent.size() > recent_limit_) {
    const auto bad = static_cast<size_t>(
        std::count_if(recent.begin(), recent.end(), [](const auto& p) { return !went_well(p); }));
    const bool drop_good = bad * 4 <= recent_limit_ * 3;
    const auto victim = std::find_if(recent.begin(), recent.end(),
                                     [&](const auto& pod) { return went_well(pod) == drop_good; });
    recent.erase(victim == recent.end() ? recent.begin() : victim);
  }
  entry.totals.recent = recent;
}

void CacheStats::loaded(const std::string& cache, const LoadSeen& seen) {
  {
    const MutexLock lock(mutex_);
    Entry& entry = entries_[cache];
    pods_.edit<CountedPod>(seen.pod_uid, [&](CountedPod& pod) {
      belong(pod, cache);
      if (pod.load) count_load(entry.totals.loads, *pod.load, -1);
      count_load(entry.totals.loads, seen.load, 1);
      pod.load = seen.load;
      pod.archive = seen.archive;
      pod.worth = seen.compile_seconds;
      pod.generation = seen.generation;
    });
    revise(entry, seen.pod_uid, Missing::kAdd, [&](api::RecentPod& recent) {
      recent.pod = seen.pod;
      recent.node = seen.node;
      recent.gpu_product = seen.gpu_product;
      recent.archive = seen.archive;
      recent.load = api::to_string(seen.load);
      recent.milliseconds = seen.milliseconds;
      recent.reason = seen.reason;
      recent.time = seen.time;
      recent.key = seen.key;
      recent.generation = seen.generation;
      recent.wait_milliseconds = seen.wait_milliseconds;
      recent.wait_reason = seen.wait_reason;
      recent.ask_milliseconds = seen.ask_milliseconds;
      recent.bytes = seen.bytes;
      recent.message = seen.message;
    });
  }
  changed(cache);
}

CacheStats::EffectMove CacheStats::effect(const std::string& cache, const EffectSeen& seen) {
  EffectMove move;
  {
    const MutexLock lock(mutex_);
    Entry& entry = entries_[cache];
    pods_.edit<CountedPod>(seen.pod_uid, [&](CountedPod& pod) {
      belong(pod, cache);
      move = {pod.effect, pod.archive};
      if (pod.effect) count_effect(entry.totals.effect, *pod.effect, -1);
      count_effect(entry.totals.effect, seen.effect, 1);
      pod.effect = seen.effect;
      entry.seconds_saved += seen.seconds_saved - pod.seconds_saved;
      pod.seconds_saved = seen.seconds_saved;
    });
    revise(entry, seen.pod_uid, Missing::kAdd, [&](api::RecentPod& recent) {
      recent.pod = seen.pod;
      recent.node = seen.node;
      recent.gpu_product = seen.gpu_product;
      recent.effect = std::string(api::to_string(seen.effect));
      recent.saved_milliseconds = std::llround(seen.seconds_saved * 1000);
      if (!seen.reason.empty()) recent.reason = seen.reason;
      if (recent.time.empty()) recent.time = seen.time;
    });
  }
  changed(cache);
  return move;
}

void CacheStats::recall(const std::string& cache, const std::string& pod_uid, api::Effect counted) {
  const MutexLock lock(mutex_);
  pods_.edit<CountedPod>(pod_uid, [&](CountedPod& pod) {
    if (pod.cache != cache) pod = {.cache = cache, .effect = counted};
  });
}

void CacheStats::update_recent(const std::string& cache, const std::string& pod_uid,
                               const RecentChange& change) {
  {
    const MutexLock lock(mutex_);
    const auto entry = entries_.find(cache);
    if (entry == entries_.end()) return;
    if (!revise(entry->second, pod_uid, Missing::kLeave, change)) return;
  }
  changed(cache);
}

void CacheStats::saved(const std::string& cache, api::SaveOutcome seen, const std::string& time) {
  {
    const MutexLock lock(mutex_);
    api::CompileCacheStatus& totals = entries_[cache].totals;
    switch (seen) {
      case api::SaveOutcome::kCommitted:
        ++totals.saves.committed;
        totals.last_save_time = time;
        break;
      case api::SaveOutcome::kUnchanged:
        ++totals.saves.unchanged;
        break;
      case api::SaveOutcome::kRefused:
        ++totals.saves.refused;
        break;
      case api::SaveOutcome::kFailed:
        ++totals.saves.failed;
        break;
    }
  }
  changed(cache);
}

void CacheStats::archives_removed(const std::string& cache, int64_t count) {
  const MutexLock lock(mutex_);
  entries_[cache].removed_archives += count;
}

void CacheStats::swept(const std::string& cache, api::LastSweep sweep) {
  {
    const MutexLock lock(mutex_);
    Entry& entry = entries_[cache];
    sweep.removed_archives = std::exchange(entry.removed_archives, 0);
    entry.totals.last_sweep = std::move(sweep);
  }
  changed(cache);
}

void CacheStats::copied(const std::string& cache, api::LastCopy copy) {
  {
    const MutexLock lock(mutex_);
    entries_[cache].totals.last_copy = std::move(copy);
  }
  changed(cache);
}

void CacheStats::set_condemned(const std::string& cache,
                               std::vector<api::CondemnedBlob> condemned) {
  {
    const MutexLock lock(mutex_);
    api::CompileCacheStatus& totals = entries_[cache].totals;
    if (totals.condemned == condemned) return;
    totals.condemned = std::move(condemned);
  }
  changed(cache);
}

std::vector<api::CondemnedBlob> CacheStats::condemned(const std::string& cache) const {
  const MutexLock lock(mutex_);
  const auto found = entries_.find(cache);
  return found == entries_.end() ? std::vector<api::CondemnedBlob>()
                                 : found->second.totals.condemned;
}

// The oldest give way.
void CacheStats::add_crashing(std::vector<std::string>& known, const std::string& manifest) {
  if (manifest.size() > kLongestManifest) return;
  if (std::find(known.begin(), known.end(), manifest) != known.end()) return;
  if (known.size() >= kMostCrashing) known.erase(known.begin());
  known.push_back(manifest);
}

void CacheStats::add_crashing(const std::string& cache, const std::string& manifest) {
  {
    const MutexLock lock(mutex_);
    std::vector<std::string>& known = entries_[cache].totals.crashing;
    const std::vector<std::string> before = known;
    add_crashing(known, manifest);
    if (known == before) return;
  }
  changed(cache);
}

void CacheStats::remove_crashing(const std::string& cache, const std::string& manifest) {
  {
    const MutexLock lock(mutex_);
    if (std::erase(entries_[cache].totals.crashing, manifest) == 0) return;
  }
  changed(cache);
}

std::vector<std::string> CacheStats::crashing(const std::string& cache) const {
  const MutexLock lock(mutex_);
  const auto found = entries_.find(cache);
  return found == entries_.end() ? std::vector<std::string>() : found->second.totals.crashing;
}

bool CacheStats::note_owner(const std::string& cache, const std::string& image, int64_t user,
                            const std::string& time) {
  {
    const MutexLock lock(mutex_);
    std::vector<api::FileOwner>& owners = entries_[cache].totals.file_owners;
    const bool known = std::any_of(owners.begin(), owners.end(), [&](const auto& owner) {
      return owner.image == image && owner.user == user;
    });
    if (known) return false;
    set_owner(owners, {image, user, false, time});
  }
  changed(cache);
  return true;
}

bool CacheStats::refuse_owners(const std::string& cache) {
  bool any = false;
  {
    const MutexLock lock(mutex_);
    for (api::FileOwner& owner : entries_[cache].totals.file_owners) {
      any = !std::exchange(owner.refused, true) || any;
    }
  }
  if (any) changed(cache);
  return any;
}

CountedPod CacheStats::pod_of(const std::string& cache, const std::string& pod_uid) const {
  const auto pod = pods_.find<CountedPod>(pod_uid);
  return pod && pod->cache == cache ? *pod : CountedPod{};
}

std::string CacheStats::archive_of(const std::string& cache, const std::string& pod_uid) const {
  return pod_of(cache, pod_uid).archive;
}

double CacheStats::seconds_of(const std::string& cache, const std::string& pod_uid) const {
  return pod_of(cache, pod_uid).seconds_saved;
}

int64_t CacheStats::generation_of(const std::string& cache, const std::string& pod_uid) const {
  return pod_of(cache, pod_uid).generation;
}

std::optional<double> CacheStats::worth_of(const std::string& cache,
                                           const std::string& pod_uid) const {
  return pod_of(cache, pod_uid).worth;
}

std::optional<api::LoadOutcome> CacheStats::load_of(const std::string& cache,
                                                    const std::string& pod_uid) const {
  return pod_of(cache, pod_uid).load;
}

std::set<std::string> CacheStats::archives_in_use(const std::string& cache,
                                                  const std::set<std::string>& alive) const {
  std::set<std::string> archives;
  for (const std::string& uid : alive) {
    const std::string archive = pod_of(cache, uid).archive;
    if (!archive.empty()) archives.insert(archive);
  }
  return archives;
}

}  // namespace compilecache::controller
