#include "operator/agents/load_traffic.hpp"

namespace compilecache::controller {
namespace {

// Who waits asks again within ten seconds (load_decision.cpp).
constexpr std::chrono::seconds kStillWaiting{12};

}  // namespace

LoadTraffic::LoadTraffic(int max_concurrent_loads, const Clock& clock)
    : limit_(static_cast<size_t>(max_concurrent_loads)), clock_(clock) {}

bool LoadTraffic::begin(const std::string& store, const std::string& pod_uid,
                        std::chrono::milliseconds budget) {
  const MutexLock lock(mutex_);
  Pods& pods = loading_[store];
  const Monotonic now = clock_.monotonic();
  std::erase_if(pods, [&](const auto& item) { return item.second <= now; });
  Pods& others = waiting_[store];
  if (pods.size() >= limit_ && !pods.contains(pod_uid)) {
    others[pod_uid] = now + kStillWaiting;
    return false;
  }
  others.erase(pod_uid);
  std::erase_if(others, [&](const auto& item) { return item.second <= now; });
  if (others.empty()) waiting_.erase(store);
  pods[pod_uid] = now + budget;
  return true;
}

size_t LoadTraffic::waiting(const std::string& what) {
  const MutexLock lock(mutex_);
  const auto found = waiting_.find(what);
  if (found == waiting_.end()) return 0;
  const Monotonic now = clock_.monotonic();
  std::erase_if(found->second, [&](const auto& item) { return item.second <= now; });
  const size_t count = found->second.size();
  if (count == 0) waiting_.erase(found);
  return count;
}

void LoadTraffic::end(const std::string& store, const std::string& pod_uid) {
  const MutexLock lock(mutex_);
  const auto found = loading_.find(store);
  if (found == loading_.end()) return;
  found->second.erase(pod_uid);
  if (found->second.empty()) loading_.erase(found);
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
  for (auto* places : {&loading_, &waiting_}) {
    for (auto& [what, pods] : *places) pods.erase(pod_uid);
    std::erase_if(*places, [](const auto& entry) { return entry.second.empty(); });
  }
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
