#include "agent/watchdog.hpp"

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

namespace compilecache::agent {

struct Watchdog::State {
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<std::chrono::steady_clock::time_point> soft_at, hard_at;
  std::function<void()> soft, hard;
};

Watchdog::Watchdog(std::function<void()> soft, std::function<void()> hard,
                   std::chrono::milliseconds grace)
    : state_(new State) {
  state_->soft = std::move(soft);
  state_->hard = std::move(hard);
  std::thread([state = state_, grace] {
    std::unique_lock lock(state->mutex);
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
        state->changed.wait_until(lock, next);
      } else {
        state->changed.wait(lock);
      }
    }
  }).detach();
}

void Watchdog::arm(std::chrono::milliseconds budget) {
  const std::lock_guard lock(state_->mutex);
  state_->soft_at = std::chrono::steady_clock::now() + budget;
  state_->hard_at.reset();
  state_->changed.notify_one();
}

void Watchdog::disarm() {
  const std::lock_guard lock(state_->mutex);
  state_->soft_at.reset();
  state_->hard_at.reset();
  state_->changed.notify_one();
}

}  // namespace compilecache::agent
