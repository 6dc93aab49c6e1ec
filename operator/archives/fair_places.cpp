#include "operator/archives/fair_places.hpp"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

namespace compilecache::controller {
namespace {

// A pod that waits asks again within ten seconds (load_decision.cpp, save_coordinator.cpp).
constexpr std::chrono::seconds kStillWaiting{12};

}  // namespace

std::map<std::string, size_t> fair_shares(const std::map<std::string, size_t>& wanted,
                                          size_t limit) {
  std::vector<std::pair<size_t, std::string>> by_need;  // the most modest first
  by_need.reserve(wanted.size());
  for (const auto& [ns, count] : wanted) by_need.emplace_back(count, ns);
  std::sort(by_need.begin(), by_need.end());
  std::map<std::string, size_t> shares;
  size_t left = limit;
  for (size_t i = 0; i < by_need.size(); ++i) {
    const auto& [count, ns] = by_need[i];
    const size_t others = by_need.size() - i;
    const size_t even = std::max<size_t>(1, (left + others - 1) / others);
    const size_t share = std::min(count, even);
    shares[ns] = share;
    left -= std::min(left, share);
  }
  return shares;
}

void FairPlaces::expire(Store& store, Monotonic now) {
  std::erase_if(store.held, [&](const auto& item) { return item.second.until <= now; });
  std::erase_if(store.waiting, [&](const auto& item) { return item.second.until <= now; });
}

FairPlaces::Answer FairPlaces::take(const Tenant& tenant, const std::string& who, Monotonic now,
                                    Duration time) {
  Store& store = stores_[tenant.store];
  expire(store, now);
  const auto grant = [&] {
    store.waiting.erase(who);
    store.held[who] = {tenant.ns, now + time};
    return Answer{.granted = true};
  };
  if (store.held.contains(who)) return grant();
  Waiting& mine = store.waiting.try_emplace(who, Waiting{tenant.ns, now, now}).first->second;
  mine.until = now + kStillWaiting;

  std::map<std::string, size_t> wanted, held;
  for (const auto& [pod, place] : store.held) ++wanted[place.ns], ++held[place.ns];
  for (const auto& [pod, place] : store.waiting) ++wanted[place.ns];
  if (held[tenant.ns] >= fair_shares(wanted, limit_).at(tenant.ns)) return {};
  const Duration waited = now - mine.since;
  if (store.held.size() < limit_ || waited >= longest_wait_) return grant();
  return {.entitled = true, .due = longest_wait_ - waited};
}

void FairPlaces::hold(const Tenant& tenant, const std::string& who, Monotonic until) {
  Store& store = stores_[tenant.store];
  store.waiting.erase(who);
  store.held[who] = {tenant.ns, until};
}

void FairPlaces::leave(const std::string& store, const std::string& who) {
  const auto found = stores_.find(store);
  if (found == stores_.end()) return;
  found->second.held.erase(who);
  found->second.waiting.erase(who);
  if (found->second.held.empty() && found->second.waiting.empty()) stores_.erase(found);
}

void FairPlaces::leave_all(const std::string& who) {
  for (auto& [id, store] : stores_) {
    store.held.erase(who);
    store.waiting.erase(who);
  }
  std::erase_if(stores_, [](const auto& item) {
    return item.second.held.empty() && item.second.waiting.empty();
  });
}

size_t FairPlaces::waiting(const Tenant& tenant, Monotonic now) {
  const auto found = stores_.find(tenant.store);
  if (found == stores_.end()) return 0;
  Store& store = found->second;
  expire(store, now);
  const auto count = std::count_if(store.waiting.begin(), store.waiting.end(),
                                   [&](const auto& one) { return one.second.ns == tenant.ns; });
  if (store.held.empty() && store.waiting.empty()) stores_.erase(found);
  return static_cast<size_t>(count);
}

}  // namespace compilecache::controller
