#include "http/wire_pool.hpp"

#include <algorithm>

namespace compilecache::http {

std::unique_ptr<Wire> WirePool::take(const std::string& origin) {
  for (;;) {
    auto wire = take_any(origin);
    if (!wire || wire->still_good()) return wire;
  }
}

std::unique_ptr<Wire> WirePool::take_any(const std::string& origin) {
  const auto now = std::chrono::steady_clock::now();
  const MutexLock lock(mutex_);
  idle_.remove_if([&](const Idle& idle) { return now - idle.since >= longest_; });
  const auto found = std::find_if(idle_.begin(), idle_.end(),
                                  [&](const Idle& idle) { return idle.origin == origin; });
  if (found == idle_.end()) return nullptr;
  auto wire = std::move(found->wire);
  idle_.erase(found);
  return wire;
}

void WirePool::clear() {
  const MutexLock lock(mutex_);
  idle_.clear();
}

void WirePool::give(const std::string& origin, std::unique_ptr<Wire> wire) {
  const auto now = std::chrono::steady_clock::now();
  const MutexLock lock(mutex_);
  idle_.push_front({origin, std::move(wire), now});
  if (idle_.size() > most_) idle_.pop_back();
}

}  // namespace compilecache::http
