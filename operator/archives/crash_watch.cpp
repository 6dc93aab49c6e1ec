#include "operator/archives/crash_watch.hpp"

#include <algorithm>

namespace compilecache::controller {
namespace {

constexpr int kEnoughPods = 2;
constexpr int kEnoughOfOnePod = 3;
constexpr size_t kNames = 3;

}  // namespace

void CrashWatch::loaded(const std::string& archive, const std::string& manifest,
                        const std::string& pod_uid) {
  const MutexLock lock(mutex_);
  const bool is_new = pods_.edit<StartedPod>(pod_uid, [&](StartedPod& pod) {
    if (!pod.archive.empty()) return false;
    pod.archive = archive;
    pod.manifest = manifest;
    return true;
  });
  if (is_new) ++archives_[archive][manifest].pods;
}

void CrashWatch::seen(const PodEnds& seen) {
  const MutexLock lock(mutex_);
  StartedPod known;
  int crashes = 0;
  pods_.edit_known<StartedPod>(seen.uid, [&](StartedPod& pod) {
    for (const ContainerEnd& end : seen.ends) {
      int& before = pod.ends[end.container];
      if (end.count > before && end.crash) ++crashes;
      before = std::max(before, end.count);
    }
    pod.crashes += crashes;
    known = pod;
  });
  if (crashes == 0) return;
  Tally& tally = archives_[known.archive][known.manifest];
  if (known.crashes == crashes) {
    ++tally.crashed;
    if (tally.names.size() < kNames) tally.names.push_back(seen.name);
  }
  tally.most_crashes = std::max(tally.most_crashes, known.crashes);
}

void CrashWatch::forget(const std::string& archive) {
  const MutexLock lock(mutex_);
  archives_.erase(archive);
}

bool CrashWatch::is_blamed(const Tally& with, const Tally& without) {
  if (with.crashed < kEnoughPods && with.most_crashes < kEnoughOfOnePod) return false;
  if (with.crashed * 2 < with.pods) return false;
  return without.pods == 0 || without.crashed * with.pods < with.crashed * without.pods;
}

CrashWatch::Tally CrashWatch::without(const Tallies& tallies, const std::string& manifest) {
  Tally sum;
  for (const auto& [other, tally] : tallies) {
    if (other == manifest) continue;
    sum.pods += tally.pods;
    sum.crashed += tally.crashed;
    sum.most_crashes = std::max(sum.most_crashes, tally.most_crashes);
  }
  return sum;
}

std::vector<Blame> CrashWatch::blame(const std::string& archive) const {
  const MutexLock lock(mutex_);
  std::vector<Blame> blames;
  const auto tallies = archives_.find(archive);
  if (tallies == archives_.end()) return blames;
  for (const auto& [manifest, tally] : tallies->second) {
    if (manifest.empty() || !is_blamed(tally, without(tallies->second, manifest))) continue;
    blames.push_back({manifest, tally.names});
  }
  return blames;
}

bool CrashWatch::acquits(const std::string& archive, const std::string& manifest) const {
  const MutexLock lock(mutex_);
  const auto tallies = archives_.find(archive);
  if (tallies == archives_.end()) return false;
  const auto with = tallies->second.find(manifest);
  const Tally others = without(tallies->second, manifest);
  const bool enough = others.crashed >= kEnoughPods || others.most_crashes >= kEnoughOfOnePod;
  return enough && with != tallies->second.end() && !is_blamed(with->second, others);
}

std::string CrashWatch::manifest_of(const std::string& pod_uid) const {
  return pods_.find<StartedPod>(pod_uid).value_or(StartedPod{}).manifest;
}

}  // namespace compilecache::controller
