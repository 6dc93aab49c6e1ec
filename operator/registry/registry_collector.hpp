#pragma once

#include <optional>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/mutex.hpp"
#include "operator/registry/collection_roll.hpp"
#include "operator/registry/registry_keeper.hpp"

// Has the registry's garbage collected when there is enough of it. The leader's.
//
//   RegistryCollector collector(keeper, rules, clock);
//   collector.deleted(sweep_time, request.freed_bytes);             // a sweep has reported
//   collector.look({.saves = saves, .last_save = last_save});  // regularly
//
// Thread-safe; keeper and clock must outlive it.

namespace compilecache::controller {

struct RegistryActivity {
  size_t saves = 0;                   // under way
  std::optional<WallTime> last_save;  // that was committed
};

class RegistryCollector {
 public:
  RegistryCollector(RegistryKeeper& keeper, RollRules rules, const Clock& clock)
      : keeper_(keeper), rules_(rules), clock_(clock) {}

  void deleted(WallTime time, uint64_t bytes);
  // Makes the registry's pod anew when that is due.
  Status look(const RegistryActivity& activity);

 private:
  RegistryKeeper& keeper_;
  const RollRules rules_;
  const Clock& clock_;
  Mutex mutex_;
  std::vector<DeletedBytes> deleted_ GUARDED_BY(mutex_);  // since the registry was started
};

}  // namespace compilecache::controller
