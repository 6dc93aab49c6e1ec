#include "operator/caches/heard_pods.hpp"

#include <algorithm>
#include <chrono>

#include "api/names.hpp"
#include "operator/cluster/earliest_requeue.hpp"

namespace compilecache::controller {
namespace {

// How long other replicas may go on giving pods the old address: they look every few seconds.
constexpr std::chrono::seconds kOthersNotice{15};

// Its loader came to its end; one that was killed need not have asked. The kubelet tells of a
// sidecar that it runs when its hook, which loads, has ended.
bool has_loaded(const PodView& pod) {
  if (pod.injection == nullptr || pod.containers == nullptr) return false;
  const bool one = pod.injection->one_container();
  return std::any_of(pod.containers->begin(), pod.containers->end(), [&](const auto& container) {
    if (one) return container.name == api::kSaverContainer && container.running;
    return container.name == api::kLoaderContainer && !container.running &&
           container.waiting_reason.empty() && container.ended_reason == "Completed";
  });
}

// A loader's report is lost while there is no leader, and another replica may have answered it. A
// saver retries until the leader answers; a pod without one may never reach it.
bool has_saver(const PodView& pod) {
  if (pod.injection == nullptr) return false;
  const auto& names = pod.injection->init_containers;
  return std::find(names.begin(), names.end(), api::kSaverContainer) != names.end();
}

}  // namespace

void HeardPods::on_change(std::function<void(const std::string&)> handler) {
  on_change_ = std::move(handler);
}

void HeardPods::begin() {
  const MutexLock lock(mutex_);
  begun_ = true;
}

void HeardPods::take_over(const std::string& ns) {
  const MutexLock lock(mutex_);
  Namespace& where = namespaces_[ns];
  where.in_a_row = std::max(where.in_a_row, rules_.unheard_pods);
}

void HeardPods::seen(const PodView& pod, Monotonic now) {
  const MutexLock lock(mutex_);
  auto [found, is_new] = namespaces_[pod.ns].pods.try_emplace(pod.uid);
  Pod& known = found->second;
  if (is_new) {
    known = {.cache = pod.cache, .name = pod.name, .judged = begun_ && has_saver(pod)};
    known.astray = !reachable_ || (moved_ && now - *moved_ < kOthersNotice);
  }
  if (!known.loaded && has_loaded(pod)) known.loaded = now;
}

void HeardPods::gone(const std::string& ns, const std::string& uid) {
  const MutexLock lock(mutex_);
  const auto where = namespaces_.find(ns);
  if (where == namespaces_.end()) return;
  where->second.pods.erase(uid);
  if (where->second.pods.empty() && where->second.in_a_row == 0) namespaces_.erase(where);
}

// A pod may call before our watch has shown it.
void HeardPods::spoke(const PodView& pod) {
  bool ask_again = false;
  {
    const MutexLock lock(mutex_);
    Namespace& where = namespaces_[pod.ns];
    ask_again = where.in_a_row >= rules_.unheard_pods;
    where.in_a_row = 0;
    Pod& known = where.pods[pod.uid];
    known.cache = pod.cache;
    known.name = pod.name;
    known.spoke = true;
  }
  if (ask_again && on_change_) on_change_(pod.ns);
}

void HeardPods::moved(bool reachable, Monotonic now) {
  const MutexLock lock(mutex_);
  reachable_ = reachable;
  moved_ = now;
  for (auto& [ns, where] : namespaces_) {
    for (auto& [uid, pod] : where.pods) pod.astray = true;
  }
}

bool HeardPods::is_unheard(const Pod& pod, Monotonic now) const {
  return pod.judged && !pod.spoke && pod.loaded && now - *pod.loaded >= rules_.unheard_after;
}

bool HeardPods::count(Namespace& where, Monotonic now) const {
  const int before = where.in_a_row;
  for (auto& [uid, pod] : where.pods) {
    if (pod.counted || pod.astray || !is_unheard(pod, now)) continue;
    pod.counted = true;
    ++where.in_a_row;
  }
  return before < rules_.unheard_pods && where.in_a_row >= rules_.unheard_pods;
}

Silence HeardPods::silence(const std::string& ns, const std::string& cache, Monotonic now) {
  Silence silence;
  const MutexLock lock(mutex_);
  const auto where = namespaces_.find(ns);
  if (where == namespaces_.end()) return silence;
  silence.turned = count(where->second, now);
  silence.not_asked = where->second.in_a_row >= rules_.unheard_pods;
  for (const auto& [uid, pod] : where->second.pods) {
    if (pod.cache != cache) continue;
    if (is_unheard(pod, now)) {
      (pod.astray ? silence.astray : silence.unheard).push_back(pod.name);
    } else if (pod.spoke) {
      ++silence.heard;
    } else if (pod.judged && pod.loaded) {
      silence.again = earliest_requeue(silence.again, *pod.loaded + rules_.unheard_after - now);
    }
  }
  std::sort(silence.unheard.begin(), silence.unheard.end());
  std::sort(silence.astray.begin(), silence.astray.end());
  return silence;
}

void HeardPods::announce(const std::string& ns) const {
  if (on_change_) on_change_(ns);
}

}  // namespace compilecache::controller
