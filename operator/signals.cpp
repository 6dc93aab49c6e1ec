#include "operator/signals.hpp"

#include <signal.h>

#include <cerrno>
#include <ctime>

namespace compilecache::controller {
namespace {

sigset_t ending_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

}  // namespace

void block_signals() {
  const sigset_t set = ending_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signal(SIGPIPE, SIG_IGN);
}

bool wait_for_signal(std::optional<std::chrono::milliseconds> patience) {
  const sigset_t set = ending_signals();
  const auto end =
      std::chrono::steady_clock::now() + patience.value_or(std::chrono::milliseconds(0));
  while (true) {
    int got = 0;
    if (!patience) {
      got = sigwaitinfo(&set, nullptr);
    } else {
      const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(
          end - std::chrono::steady_clock::now());
      const auto wait = left.count() > 0 ? left : std::chrono::nanoseconds(0);
      const timespec time{static_cast<time_t>(wait.count() / 1'000'000'000),
                          static_cast<long>(wait.count() % 1'000'000'000)};
      got = sigtimedwait(&set, nullptr, &time);
    }
    if (got > 0) return true;
    if (errno != EINTR) return false;
  }
}

}  // namespace compilecache::controller
