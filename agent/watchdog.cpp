#include "agent/watchdog.hpp"

#include <optional>
#include <thread>
#include <utility>

#include "base/mutex.hpp"

namespace compilecache::agent {

struct Watchdog::State {
  using Time = std::chrono::steady_clock::time_point;
  State(std::function<void()> softly, std::function<void()> at_last)
      : soft(std::move(softly)), hard(std::move(at_last)) {}

  const std::function<void()> soft, hard;
  Mutex mutex;
  CondVar changed;
  std::optional<Time> soft_at GUARDED_BY(mutex);
  std::optional<Time> hard_at GUARDED_BY(mutex);
};

Watchdog::Watchdog(std::function<void()> soft, std::function<void()> hard,
                   std::chrono::milliseconds grace)
    : state_(new State(std::move(soft), std::move(hard))) {
  std::thread([state = state_, grace] {
    const MutexLock lock(state->mutex);
    while (true) {
      const auto now = std::chrono::steady_clock::now();
      if (state->soft_at && *state->soft_at <= now) {
        state->hard_at = *state->soft_at + grace;
        state->soft_at.reset();
        state->soft();
      } else if (state->hard_at && *state->hard_at <= now) {
        state->hard_at.reset();
        state->hard();
      } else if (state->soft_at || state->hard_at) {
        const auto next = state->soft_at ? *state->soft_at : *state->hard_at;
        state->changed.wait_until(state->mutex, next);
      } else {
        state->changed.wait(state->mutex);
      }
    }
  }).detach();
}

void Watchdog::arm(std::chrono::milliseconds budget) {
  const MutexLock lock(state_->mutex);
  state_->soft_at = std::chrono::steady_clock::now() + budget;
  state_->hard_at.reset();
  state_->changed.notify_one();
}

void Watchdog::disarm() {
  const MutexLock lock(state_->mutex);
  state_->soft_at.reset();
  state_->hard_at.reset();
  state_->changed.notify_one();
}

}  // namespace compilecache::agent
