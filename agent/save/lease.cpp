#include "agent/save/lease.hpp"

#include <algorithm>
#include <chrono>

#include "base/log.hpp"

namespace compilecache::agent {
namespace {

constexpr std::chrono::milliseconds kShortestPause{50};

bool gone(ErrorCode code) {
  return code == ErrorCode::kConflict || code == ErrorCode::kNotFound ||
         code == ErrorCode::kExpired || code == ErrorCode::kForbidden;
}

}  // namespace

Lease::Lease(Coordinator& coordinator, const api::SaveAnswer& answer,
             std::chrono::milliseconds longest_hang)
    : coordinator_(coordinator),
      answer_(answer),
      longest_hang_(longest_hang),
      thread_([this] { keep(); }) {}

Lease::~Lease() {
  {
    const MutexLock lock(mutex_);
    end_ = true;
  }
  ended_.notify_one();
  thread_.join();
}

void Lease::keep() {
  const auto pause =
      std::max(std::chrono::milliseconds(answer_.lock_timeout_ms / 3), kShortestPause);
  MutexLock lock(mutex_);
  while (!ended_.wait_for(mutex_, pause, [this]() REQUIRES(mutex_) { return end_; })) {
    lock.unlock();
    if (hangs()) {
      log_warn("the save hangs; leaving its lock to other pods", {{"save", answer_.id}});
      lost_ = true;
      return;
    }
    // The call takes no longer than a pause, so that the destructor does not wait for long.
    const auto renewed = coordinator_.renew_save(answer_.id, {answer_.fence}, pause);
    lock.lock();
    if (renewed) continue;
    log_warn("the save's lock was not renewed",
             {{"save", answer_.id}, {"error", renewed.error().message}});
    if (gone(renewed.error().code)) {
      lost_ = true;
      return;
    }
  }
}

bool Lease::hangs() {
  const auto now = std::chrono::steady_clock::now();
  if (got_on_.exchange(false)) got_on_at_ = now;
  return now - got_on_at_ > longest_hang_;
}

}  // namespace compilecache::agent
