#include "operator/agents/caller_allowance.hpp"

#include <algorithm>
#include <chrono>

namespace compilecache::controller {
namespace {

constexpr int kMostAtOnce = 100;
constexpr int kEachSecond = 5;
constexpr size_t kMaxCallers = 10'000;

std::string address_of(std::string_view peer) {
  return std::string(peer.substr(0, peer.rfind(':')));
}

}  // namespace

bool CallerAllowance::take(std::string_view peer) {
  const std::string caller = address_of(peer);
  const MutexLock lock(mutex_);
  const Monotonic now = clock_.monotonic();
  if (left_.size() >= kMaxCallers && !left_.contains(caller)) {
    // A caller that has all of it is as good as unknown.
    std::erase_if(left_, [&](const auto& item) {
      return now - item.second.at >= std::chrono::seconds(kMostAtOnce / kEachSecond);
    });
    if (left_.size() >= kMaxCallers) left_.clear();
  }
  Left& its = left_.try_emplace(caller, Left{kMostAtOnce, now}).first->second;
  const std::chrono::duration<double> since = now - its.at;
  its.tokens = std::min<double>(kMostAtOnce, its.tokens + since.count() * kEachSecond);
  its.at = now;
  if (its.tokens < 1) return false;
  its.tokens -= 1;
  return true;
}

void CallerAllowance::give_back(std::string_view peer) {
  const MutexLock lock(mutex_);
  const auto found = left_.find(address_of(peer));
  if (found != left_.end()) found->second.tokens += 1;
}

}  // namespace compilecache::controller
