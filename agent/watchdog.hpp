#pragma once

#include <chrono>
#include <functional>

namespace compilecache::agent {

// Ends the process when work takes too long, also while the thread that works hangs in a system
// call: `soft` runs when the time is up, and, if nobody disarmed, `hard` after the grace. Both on
// the watchdog's own thread, which lives as long as the process; arm and disarm from one thread.
class Watchdog {
 public:
  Watchdog(std::function<void()> soft, std::function<void()> hard, std::chrono::milliseconds grace);

  void arm(std::chrono::milliseconds budget);
  void disarm();

 private:
  struct State;
  State* state_;
};

}  // namespace compilecache::agent
