#include "operator/archives/crash_watch.hpp"

#include <algorithm>
#include <chrono>

namespace compilecache::controller {
namespace {

constexpr int kEnoughWitnesses = 2;
constexpr int kEnoughOfOne = 3;
constexpr size_t kNames = 3;
// A digest is shorter than this.
constexpr size_t kLongestManifest = 128;
constexpr size_t kMostGroups = 10'000;
// How long a pod may take to become ready after its load, beside three times as long as the slowest
// one took; and where none was ready yet.
constexpr std::chrono::minutes kReadyWithin{15}, kFirstReadyWithin{60};
constexpr int kTimesTheSlowest = 3;

}  // namespace

std::string crash_group(const api::CompileCacheArchive& archive) {
  const api::ArchiveKey key = api::with_cpu(archive.key, "");
  if (key == archive.key) return archive.metadata.key();
  return archive.metadata.ns + "/" + api::archive_name(archive.cache, key);
}

// Pods name what they load, so there may be any number of names.
CrashWatch::Watched& CrashWatch::watched(const std::string& archive) {
  const auto known = archives_.find(archive);
  if (known != archives_.end()) return known->second;
  const std::string ns = archive.substr(0, archive.find('/') + 1);
  size_t count = 0;
  auto oldest = archives_.end();
  for (auto each = archives_.lower_bound(ns);
       each != archives_.end() && each->first.starts_with(ns); ++each, ++count) {
    if (oldest == archives_.end() || each->second.latest < oldest->second.latest) oldest = each;
  }
  if (count >= kMostArchives) archives_.erase(oldest);
  return archives_[archive];
}

// The key of the group's start that the pod belongs to. Another pod at a place that is taken is of
// the next start.
std::string CrashWatch::start_of(const std::string& archive, const std::string& pod_uid,
                                 const PodGroup& group) {
  if (group.id.empty()) return {};
  const auto [found, is_new] = groups_.try_emplace(archive + " " + group.id);
  Start& start = found->second;
  if (is_new) group_order_.push_back(found->first);
  const auto at = start.members.find(group.member);
  const bool next = !group.member.empty() && at != start.members.end() && at->second != pod_uid;
  if (is_new || next) {
    starts_.erase(start.key);
    start = {found->first + " " + std::to_string(++loads_), {}};
    starts_[start.key];
  }
  start.members[group.member] = pod_uid;
  const std::string key = start.key;
  while (group_order_.size() > kMostGroups) {
    const auto oldest = groups_.find(group_order_.front());
    starts_.erase(oldest->second.key);
    groups_.erase(oldest);
    group_order_.pop_front();
  }
  return key;
}

void CrashWatch::loaded(const std::string& archive, const std::string& manifest,
                        const std::string& pod_uid, const PodGroup& group) {
  if (manifest.size() > kLongestManifest) return;
  const MutexLock lock(mutex_);
  if (const auto known = pods_.find<StartedPod>(pod_uid); known && !known->archive.empty()) return;
  StartedPod started;
  started.archive = archive;
  started.manifest = manifest;
  started.group = start_of(archive, pod_uid, group);
  pods_.edit<StartedPod>(pod_uid, [&](StartedPod& pod) { pod = started; });
  watched(archive).latest = ++loads_;
  change(pod_uid, started, "", [&](Witness& witness) { witness.manifests.insert(manifest); });
}

// Changes the pod's witness and its counts. Nothing where it was forgotten.
void CrashWatch::change(const std::string& pod_uid, const StartedPod& pod,
                        const std::string& bad_name, const std::function<void(Witness&)>& how) {
  const auto archive = archives_.find(pod.archive);
  const auto start = starts_.find(pod.group);
  if (archive == archives_.end() || (!pod.group.empty() && start == starts_.end())) return;
  Witness witness = pod.group.empty()
                        ? pods_.find<StartedPod>(pod_uid).value_or(StartedPod{}).witness
                        : start->second;
  auto& tallies = archive->second.tallies;
  if (!witness.manifests.empty()) {
    const auto before = tallies.find(witness.manifests);
    if (before == tallies.end()) return;
    count(before->second, witness, -1);
  }
  how(witness);
  Tally& tally = tallies[witness.manifests];
  count(tally, witness, 1);
  if (bad_name.empty()) tally.latest = archive->second.latest;
  if (!bad_name.empty() && tally.names.size() < kNames &&
      std::count(tally.names.begin(), tally.names.end(), bad_name) == 0) {
    tally.names.push_back(bad_name);
  }
  if (pod.group.empty()) {
    pods_.edit_known<StartedPod>(pod_uid, [&](StartedPod& known) { known.witness = witness; });
  } else {
    start->second = witness;
  }
  if (tallies.size() <= kMostManifests) return;
  tallies.erase(std::min_element(tallies.begin(), tallies.end(), [](const auto& a, const auto& b) {
    return a.second.latest < b.second.latest;
  }));
}

void CrashWatch::count(Tally& tally, const Witness& witness, int sign) {
  tally.witnesses += sign;
  if (witness.bad()) tally.bad += sign;
  if (witness.crashes > 0) tally.crashed += sign;
  if (witness.crashes >= kEnoughOfOne) tally.repeated += sign;
}

void CrashWatch::seen(const PodEnds& seen) {
  const MutexLock lock(mutex_);
  StartedPod known;
  int crashes = 0;
  const bool is_known = pods_.edit_known<StartedPod>(seen.uid, [&](StartedPod& pod) {
    for (const ContainerEnd& end : seen.ends) {
      int& before = pod.ends[end.container];
      if (end.count > before && end.crash) ++crashes;
      before = std::max(before, end.count);
    }
    pod.crashes += crashes;
    known = pod;
    pod.was_ready |= seen.ready;
  });
  if (!is_known) return;
  if (crashes > 0) {
    change(seen.uid, known, seen.name,
           [&](Witness& witness) { witness.crashes = std::max(witness.crashes, known.crashes); });
  }
  wait_or_ready(seen, known);
}

void CrashWatch::wait_or_ready(const PodEnds& seen, const StartedPod& known) {
  const auto found = archives_.find(known.archive);
  if (found == archives_.end()) return;
  Watched& archive = found->second;
  const auto waits = archive.waiting.find(seen.uid);
  if (seen.ready && waits != archive.waiting.end()) {
    const Duration took = seen.now - waits->second.since;
    archive.slowest = std::max(archive.slowest.value_or(took), took);
    const bool counted = waits->second.counted;
    archive.waiting.erase(waits);
    // Late, and yet it came.
    if (counted) change(seen.uid, known, "", [](Witness& witness) { witness.hangs = false; });
  } else if (seen.ready && !known.was_ready) {
    archive.slowest = archive.slowest.value_or(Duration::zero());
  } else if (seen.running && !seen.ready && !known.was_ready && waits == archive.waiting.end()) {
    archive.waiting[seen.uid] = {seen.name, seen.now};
  }
}

void CrashWatch::count_if_hanging(const std::string& pod_uid, Watched& watched, Monotonic now) {
  Waiting& waiting = watched.waiting.at(pod_uid);
  if (waiting.counted) return;
  const auto& slowest = watched.slowest;
  const Duration patience =
      slowest ? std::max<Duration>(kReadyWithin, kTimesTheSlowest * *slowest) : kFirstReadyWithin;
  if (now - waiting.since < patience) return;
  const auto pod = pods_.find<StartedPod>(pod_uid);
  if (!pod) return;
  waiting.counted = true;
  change(pod_uid, *pod, waiting.name, [](Witness& witness) { witness.hangs = true; });
}

void CrashWatch::look(const std::string& archive, Monotonic now) {
  const MutexLock lock(mutex_);
  const auto found = archives_.find(archive);
  if (found == archives_.end()) return;
  for (const auto& [uid, waiting] : found->second.waiting) {
    count_if_hanging(uid, found->second, now);
  }
}

void CrashWatch::gone(const std::string& pod_uid, Monotonic now) {
  const MutexLock lock(mutex_);
  const auto pod = pods_.find<StartedPod>(pod_uid);
  const auto found = pod ? archives_.find(pod->archive) : archives_.end();
  if (found == archives_.end() || !found->second.waiting.contains(pod_uid)) return;
  count_if_hanging(pod_uid, found->second, now);
  found->second.waiting.erase(pod_uid);
}

void CrashWatch::forget(const std::string& archive) {
  const MutexLock lock(mutex_);
  archives_.erase(archive);
}

bool CrashWatch::is_blamed(const Tally& with, const Tally& without) {
  if (with.bad < kEnoughWitnesses && with.repeated == 0) return false;
  if (with.bad * 2 < with.witnesses) return false;
  return without.witnesses == 0 || without.bad * with.witnesses < with.bad * without.witnesses;
}

// Of the witnesses in which a pod loaded the manifest, or of all others.
CrashWatch::Tally CrashWatch::sum(const Watched& watched, const std::string& manifest, bool with) {
  Tally sum;
  for (const auto& [manifests, tally] : watched.tallies) {
    if (manifests.contains(manifest) != with) continue;
    sum.witnesses += tally.witnesses;
    sum.bad += tally.bad;
    sum.crashed += tally.crashed;
    sum.repeated += tally.repeated;
    for (const std::string& name : tally.names) {
      if (sum.names.size() < kNames) sum.names.push_back(name);
    }
  }
  return sum;
}

std::vector<Blame> CrashWatch::blame(const std::string& archive) const {
  const MutexLock lock(mutex_);
  std::vector<Blame> blames;
  const auto found = archives_.find(archive);
  if (found == archives_.end()) return blames;
  std::set<std::string> manifests;
  for (const auto& [started_with, tally] : found->second.tallies) {
    manifests.insert(started_with.begin(), started_with.end());
  }
  for (const std::string& manifest : manifests) {
    if (manifest.empty()) continue;
    const Tally with = sum(found->second, manifest, true);
    if (is_blamed(with, sum(found->second, manifest, false)))
      blames.push_back({manifest, with.names, with.crashed == 0});
  }
  return blames;
}

bool CrashWatch::acquits(const std::string& archive, const std::string& manifest) const {
  const MutexLock lock(mutex_);
  const auto found = archives_.find(archive);
  if (found == archives_.end()) return false;
  const Tally with = sum(found->second, manifest, true);
  const Tally others = sum(found->second, manifest, false);
  const bool enough = others.bad >= kEnoughWitnesses || others.repeated > 0;
  return enough && with.witnesses > 0 && !is_blamed(with, others);
}

std::string CrashWatch::manifest_of(const std::string& pod_uid) const {
  return pods_.find<StartedPod>(pod_uid).value_or(StartedPod{}).manifest;
}

}  // namespace compilecache::controller
