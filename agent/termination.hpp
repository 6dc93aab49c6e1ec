#pragma once

#include <atomic>
#include <chrono>
#include <functional>

namespace compilecache::agent {

// SIGTERM and SIGINT as a value. Make it first in main: it blocks the signals for all later threads
// and waits for them in a thread of its own. Lives as long as the process.
class Termination {
 public:
  Termination();

  [[nodiscard]] bool requested() const { return requested_; }
  // How long ago it was requested; zero where it was not.
  [[nodiscard]] std::chrono::milliseconds since() const;
  // A descriptor for poll(), readable once the end was requested.
  [[nodiscard]] int fd() const { return event_; }
  // Runs `handler` on the waiting thread when the signal comes, at once if it came before. The
  // handler may end the process.
  void on_request(std::function<void()> handler);
  // Sleeps; true after the whole time, false as soon as the end is requested.
  bool sleep(std::chrono::milliseconds duration) const;

 private:
  struct Handler;
  std::atomic<bool> requested_{false};
  std::atomic<std::chrono::steady_clock::time_point> requested_at_{};
  int event_ = -1;
  Handler* handler_ = nullptr;  // never freed: the thread outlives everything
};

// Waits for SIGTERM or SIGINT on the calling thread, for a process that could make no Termination.
void wait_for_signal();

}  // namespace compilecache::agent
