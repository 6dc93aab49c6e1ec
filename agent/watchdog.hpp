#pragma once

#include <chrono>
#include <functional>

namespace compilecache::agent {

// Ends the process when work takes too long, even while the working thread hangs in a system call:
// `soft` runs when the time is up, and `hard` after the grace, unless it was disarmed. Both run on
// the watchdog's own thread, which lives as long as the process. Arm and disarm it from one thread.
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
