#pragma once

#include <map>
#include <string>

#include "base/clock.hpp"

// Remembers when each Event appeared or changed, by our own clock. The times in an Event are by
// another machine's clock, which may be hours away. When what it reports happens again the
// Event is written again, which changes its resourceVersion.
//
//   for (const auto& event : events) {
//     const auto& sight = sightings.see(event.name, event.version, clock.monotonic());
//     if (sight.is_news) ...
//   }
//   sightings.end_round();
//
// Not thread-safe.

namespace compilecache::controller {

class EventSightings {
 public:
  struct Sight {
    std::string version;
    Monotonic since{};
    bool is_news = false;  // it was not as it is already when we looked for the first time
    int round = 0;
  };

  const Sight& see(const std::string& event, const std::string& version, Monotonic now) {
    const bool known = sights_.contains(event);
    Sight& sight = sights_[event];
    if (!known || sight.version != version) sight = {version, now, known || round_ > 0, round_};
    sight.round = round_;
    return sight;
  }
  // All existing ones were seen; the others are deleted.
  void end_round() {
    std::erase_if(sights_, [this](const auto& entry) { return entry.second.round != round_; });
    ++round_;
  }

 private:
  std::map<std::string, Sight> sights_;
  int round_ = 0;
};

}  // namespace compilecache::controller
