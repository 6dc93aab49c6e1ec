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
//   collector.deleted(sweep_time, request.freed_bytes);        // a sweep has reported
//   collector.found_full();                                    // an agent could not push
//   collector.look({.saves = saves, .last_save = last_save});  // regularly
//
// Thread-safe; keeper and clock must outlive it.

namespace compilecache::controller {

struct RegistryActivity {
  size_t saves = 0;                   // under way
  std::optional<WallTime> last_save;  // that was committed
  bool leftovers = false;             // repositories without any tag
};

class RegistryCollector {
 public:
  RegistryCollector(RegistryKeeper& keeper, RollRules rules, const Clock& clock)
      : keeper_(keeper), rules_(rules), clock_(clock) {}

  void deleted(WallTime time, uint64_t bytes);
  // An agent was told that there is no room. It is believed as often as full_roll_is_due() says.
  void found_full();
  // Since when there is no room, as far as is known: no save was committed after that.
  [[nodiscard]] std::optional<WallTime> full_since() const;
  // A save was committed, so there is room.
  void found_room();
  // Makes the registry's pod anew when that is due.
  Status look(const RegistryActivity& activity);

 private:
  RegistryKeeper& keeper_;
  const RollRules rules_;
  const Clock& clock_;
  Status start_anew(const char* reason, uint64_t garbage);

  mutable Mutex mutex_;
  std::optional<WallTime> full_since_ GUARDED_BY(mutex_);
  std::optional<WallTime> full_reported_ GUARDED_BY(mutex_);  // the last time
  int full_rolls_ GUARDED_BY(mutex_) = 0;
  std::vector<DeletedBytes> deleted_ GUARDED_BY(mutex_);  // since the registry was started
};

}  // namespace compilecache::controller
