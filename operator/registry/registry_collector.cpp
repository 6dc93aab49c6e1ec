#include "operator/registry/registry_collector.hpp"

#include <utility>

#include "base/log.hpp"
#include "base/quantity.hpp"

namespace compilecache::controller {
namespace {

// A registry of which nobody has said for so long that it is full has room, or nobody saves.
constexpr std::chrono::hours kForgetFull{24};

}  // namespace

void RegistryCollector::deleted(WallTime time, uint64_t bytes) {
  const MutexLock lock(mutex_);
  if (bytes > 0) deleted_.push_back({time, bytes});
}

void RegistryCollector::found_full() {
  const MutexLock lock(mutex_);
  full_reported_ = clock_.wall();
  if (!full_since_) full_since_ = full_reported_;
}

void RegistryCollector::found_room() {
  const MutexLock lock(mutex_);
  full_since_.reset();
}

std::optional<WallTime> RegistryCollector::full_since() const {
  const MutexLock lock(mutex_);
  return full_since_;
}

Status RegistryCollector::look(const RegistryActivity& activity) {
  RollFacts facts{.started = keeper_.started(),
                  .saves = activity.saves,
                  .last_save = activity.last_save,
                  .now = clock_.wall()};
  if (!facts.started) return {};
  uint64_t garbage = 0;
  bool full = false;
  {
    const MutexLock lock(mutex_);
    std::erase_if(deleted_, [&](const DeletedBytes& one) { return one.time <= *facts.started; });
    garbage = garbage_since(deleted_, *facts.started);
    facts.enough_since = enough_since(deleted_, *facts.started, rules_);
    if (full_reported_ && facts.now - *full_reported_ >= kForgetFull) {
      full_since_.reset();
      full_reported_.reset();
      full_rolls_ = 0;
    }
    full = full_roll_is_due({.started = facts.started,
                             .reported = full_reported_,
                             .rolls = full_rolls_,
                             .now = facts.now},
                            rules_);
    if (full) ++full_rolls_;
  }
  facts.leftovers = activity.leftovers || garbage > 0;
  if (full) return start_anew("registry_full", garbage);
  return roll_is_due(facts, rules_) ? start_anew("enough_garbage", garbage) : Status();
}

Status RegistryCollector::start_anew(const char* reason, uint64_t garbage) {
  log_info("the registry's garbage is collected",
           {{"reason", reason}, {"bytes", format_bytes(garbage)}});
  return keeper_.start_anew();
}

}  // namespace compilecache::controller
