#include "operator/registry/registry_collector.hpp"

#include "base/log.hpp"
#include "base/quantity.hpp"

namespace compilecache::controller {

void RegistryCollector::deleted(WallTime time, uint64_t bytes) {
  const MutexLock lock(mutex_);
  if (bytes > 0) deleted_.push_back({time, bytes});
}

Status RegistryCollector::look(const RegistryActivity& activity) {
  RollFacts facts{.started = keeper_.started(),
                  .saves = activity.saves,
                  .last_save = activity.last_save,
                  .now = clock_.wall()};
  if (!facts.started) return {};
  {
    const MutexLock lock(mutex_);
    std::erase_if(deleted_, [&](const DeletedBytes& one) { return one.time <= *facts.started; });
    facts.garbage = garbage_since(deleted_, *facts.started);
  }
  if (!roll_is_due(facts, rules_)) return {};
  log_info("the registry's garbage is collected",
           {{"reason", "enough_garbage"}, {"bytes", format_bytes(facts.garbage)}});
  return keeper_.start_anew();
}

}  // namespace compilecache::controller
