#include "operator/load_traffic.hpp"

namespace compilecache::controller {

LoadTraffic::LoadTraffic(int max_concurrent_loads, const Clock& clock)
    : limit_(static_cast<size_t>(max_concurrent_loads)), clock_(clock) {}

bool LoadTraffic::begin(const std::string& claim, const std::string& pod_uid,
                        std::chrono::milliseconds budget) {
  const std::lock_guard lock(mutex_);
  auto& pods = loading_[claim];
  const Monotonic now = clock_.monotonic();
  std::erase_if(pods, [&](const auto& item) { return item.second <= now; });
  if (pods.size() >= limit_ && !pods.contains(pod_uid)) return false;
  pods[pod_uid] = now + budget;
  return true;
}

void LoadTraffic::end(const std::string& claim, const std::string& pod_uid) {
  const std::lock_guard lock(mutex_);
  const auto found = loading_.find(claim);
  if (found == loading_.end()) return;
  found->second.erase(pod_uid);
  if (found->second.empty()) loading_.erase(found);
}

bool LoadTraffic::goes_second(
    const std::string& archive, const std::string& pod, const std::string& pod_uid,
    const std::function<bool(const std::string& pod, const std::string& uid)>& alive) {
  const std::lock_guard lock(mutex_);
  First& first = first_[archive];
  if (!first.uid.empty() && first.uid != pod_uid && alive(first.pod, first.uid)) return true;
  first = {pod, pod_uid};
  return false;
}

void LoadTraffic::saved(const std::string& archive) {
  const std::lock_guard lock(mutex_);
  first_.erase(archive);
}

}  // namespace compilecache::controller
