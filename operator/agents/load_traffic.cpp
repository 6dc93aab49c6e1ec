#include "operator/agents/load_traffic.hpp"

#include <algorithm>

namespace compilecache::controller {
namespace {

// Who waits asks again within ten seconds (load_decision.cpp).
constexpr std::chrono::seconds kStillWaiting{12};
// How long a pod waits for other namespaces' loads at most: loads are to take seconds.
constexpr std::chrono::seconds kLongestForOthers{2};
// A load that takes this many times as long as others did has probably ended unheard.
constexpr double kMargin = 4;
constexpr std::chrono::seconds kLeastTime{2};
// How much of the pace the latest load is.
constexpr double kLatest = 0.25;
constexpr size_t kMostPaces = 10'000;

std::string pace_key(const FairPlaces::Tenant& tenant) { return tenant.ns + " " + tenant.store; }

}  // namespace

LoadTraffic::LoadTraffic(int max_concurrent_loads, const Clock& clock)
    : clock_(clock), places_(static_cast<size_t>(max_concurrent_loads), kLongestForOthers) {}

Duration LoadTraffic::time_for(const Load& load) const {
  const auto pace = pace_.find(pace_key(load.tenant));
  if (pace == pace_.end() || load.bytes <= 0) return load.budget;
  const double expected = pace->second * static_cast<double>(load.bytes) * kMargin;
  // A double holds any budget; an int64_t not any product.
  if (expected >= static_cast<double>(Duration(load.budget).count())) return load.budget;
  const Duration time(static_cast<int64_t>(expected));
  return std::min<Duration>(load.budget, std::max<Duration>(kLeastTime, time));
}

FairPlaces::Answer LoadTraffic::begin(const Load& load) {
  const MutexLock lock(mutex_);
  return places_.take(load.tenant, load.pod_uid, clock_.monotonic(), time_for(load));
}

void LoadTraffic::end(const FairPlaces::Tenant& tenant, const std::string& pod_uid, int64_t bytes,
                      std::chrono::milliseconds took) {
  const MutexLock lock(mutex_);
  places_.leave(tenant.store, pod_uid);
  if (bytes <= 0 || took <= std::chrono::milliseconds(0)) return;
  if (pace_.size() >= kMostPaces) pace_.clear();
  const double latest = static_cast<double>(Duration(took).count()) / static_cast<double>(bytes);
  const auto [pace, first] = pace_.try_emplace(pace_key(tenant), latest);
  if (!first) pace->second += (latest - pace->second) * kLatest;
}

size_t LoadTraffic::waiting(const FairPlaces::Tenant& tenant) {
  const MutexLock lock(mutex_);
  return places_.waiting(tenant, clock_.monotonic());
}

size_t LoadTraffic::waiting(const std::string& archive) {
  const MutexLock lock(mutex_);
  const auto found = waiting_.find(archive);
  if (found == waiting_.end()) return 0;
  const Monotonic now = clock_.monotonic();
  std::erase_if(found->second, [&](const auto& item) { return item.second <= now; });
  const size_t count = found->second.size();
  if (count == 0) waiting_.erase(found);
  return count;
}

bool LoadTraffic::another_is_first(const std::string& archive, const First& candidate,
                                   const Alive& alive) {
  const Monotonic now = clock_.monotonic();
  const auto first = first_.find(archive);
  if (first != first_.end()) {
    if (first->second.uid == candidate.uid) return false;
    if (now < first->second.until && alive(first->second.pod, first->second.uid)) return true;
    first_.erase(first);
  }
  if (now < candidate.until) first_[archive] = candidate;
  return false;
}

bool LoadTraffic::goes_second(const std::string& archive, const std::string& pod,
                              const std::string& pod_uid, std::chrono::milliseconds tenure,
                              const Alive& alive) {
  const MutexLock lock(mutex_);
  const Monotonic now = clock_.monotonic();
  const bool waits = another_is_first(archive, {pod, pod_uid, now + tenure}, alive);
  if (waits) waiting_[archive][pod_uid] = now + kStillWaiting;
  return waits;
}

void LoadTraffic::goes_ahead(const std::string& archive, const std::string& pod,
                             const std::string& pod_uid, std::chrono::milliseconds tenure,
                             const Alive& alive) {
  const MutexLock lock(mutex_);
  another_is_first(archive, {pod, pod_uid, clock_.monotonic() + tenure}, alive);
}

void LoadTraffic::saved(const std::string& archive, const std::string& pod,
                        const std::string& pod_uid, std::chrono::milliseconds settle) {
  const MutexLock lock(mutex_);
  const auto first = first_.find(archive);
  if (first == first_.end()) return;
  const Monotonic now = clock_.monotonic();
  const bool over = first->second.saved && first->second.until <= now;
  if (over || settle <= std::chrono::milliseconds(0)) {
    first_.erase(first);
    waiting_.erase(archive);
  } else {
    first->second = {pod, pod_uid, now + settle, true};
  }
}

void LoadTraffic::compiling(const std::string& archive, const std::string& pod_uid) {
  const MutexLock lock(mutex_);
  const auto first = first_.find(archive);
  if (first == first_.end() || first->second.uid != pod_uid || !first->second.saved) return;
  // Until it commits again; who waits has a bound.
  first->second.until = Monotonic::max();
}

bool LoadTraffic::holds(const std::string& archive, const std::string& pod_uid,
                        const Alive& alive) {
  const MutexLock lock(mutex_);
  const auto first = first_.find(archive);
  if (first == first_.end() || !first->second.saved || first->second.uid == pod_uid) return false;
  const Monotonic now = clock_.monotonic();
  if (now < first->second.until && alive(first->second.pod, first->second.uid)) {
    waiting_[archive][pod_uid] = now + kStillWaiting;
    return true;
  }
  first_.erase(first);
  waiting_.erase(archive);
  return false;
}

void LoadTraffic::gone(const std::string& pod_uid) {
  const MutexLock lock(mutex_);
  places_.leave_all(pod_uid);
  for (auto& [archive, pods] : waiting_) pods.erase(pod_uid);
  std::erase_if(waiting_, [](const auto& entry) { return entry.second.empty(); });
  std::erase_if(first_, [&](const auto& entry) { return entry.second.uid == pod_uid; });
}

std::string LoadTraffic::first(const std::string& archive) const {
  const MutexLock lock(mutex_);
  const auto found = first_.find(archive);
  return found == first_.end() ? "" : found->second.pod;
}

void LoadTraffic::gives_up(const std::string& archive, const std::string& pod_uid) {
  const MutexLock lock(mutex_);
  const auto first = first_.find(archive);
  if (first != first_.end() && first->second.uid == pod_uid) first_.erase(first);
}

}  // namespace compilecache::controller
