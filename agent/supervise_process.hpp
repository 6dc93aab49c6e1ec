#pragma once

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <string_view>

// What compilecache-supervise needs of processes, time and the log, without a heap, threads or
// anything of the C++ runtime. Internal to that program.

namespace compilecache::agent {

// Of the monotonic clock.
std::chrono::milliseconds monotonic_now();

// A line of the log in memory of its own, written at once. As base/log.hpp writes them, which needs
// a heap.
//
class LogLine {
 public:
  explicit LogLine(std::string_view level);
  LogLine& operator<<(std::string_view text);
  LogLine& operator<<(int64_t number) { return digits(number, 1); }
  // It does not wait for a reader of the log: this process has to react to signals.
  void write();

 private:
  LogLine& digits(int64_t number, int least);
  LogLine& time();

  char text_[512];
  size_t length_ = 0;
};

// Blocks all signals that can be blocked, so that only the awaited ones have an effect.
class Signals {
 public:
  Signals();
  // In a child: SIGTERM and SIGINT stay blocked, so that one that comes before it listens waits for
  // it; or nothing is.
  void set_for_saver() const { ::sigprocmask(SIG_SETMASK, &blocked_in_saver_, nullptr); }
  static void set_for_loader();
  // 0 when the time is over; without a limit where it is negative.
  [[nodiscard]] int next(std::chrono::milliseconds time) const;

 private:
  sigset_t wanted_{};
  sigset_t blocked_in_saver_{};
};

// In a child that was just forked by `parent`: dies with it.
void die_with(pid_t parent);
// Becomes the program; where that cannot be, says so and ends the process.
[[noreturn]] void become(char* const* command);

}  // namespace compilecache::agent
