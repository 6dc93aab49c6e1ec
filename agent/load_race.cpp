#include "agent/load_race.hpp"

#include <algorithm>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.hpp"

namespace compilecache::agent {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLongestPause{2000};
constexpr milliseconds kNextReplica{300};
// How long the wait for an answer may hide that the process has to end.
constexpr milliseconds kLook{100};

class Race {
 public:
  Race(const RaceCalls& calls, Patience patience, const RaceParts& parts)
      : calls_(calls),
        parts_(parts),
        pause_(parts.random),
        end_(parts.clock.monotonic() + patience),
        next_leader_(parts.clock.monotonic()),
        next_replica_(parts.clock.monotonic() + parts.head_start) {}

  Result<std::string> run() {
    while (!is_decided() && parts_.clock.monotonic() < end_ && parts_.sleep(milliseconds(0))) {
      begin_calls();
      wait();
    }
    std::optional<Result<std::string>> answer;
    {
      const MutexLock lock(mutex_);
      answer = answer_;
    }
    for (std::jthread& call : running_) call.request_stop();
    running_.clear();  // waits for them
    if (answer) return *std::move(answer);
    const MutexLock lock(mutex_);
    return leader_said_ ? *leader_said_ : fail(ErrorCode::kTimeout, "no answer in time");
  }

 private:
  bool is_decided() {
    const MutexLock lock(mutex_);
    return answer_.has_value();
  }

  void begin_calls() {
    const Monotonic now = parts_.clock.monotonic();
    const MutexLock lock(mutex_);
    if (!leader_is_asked_ && now >= next_leader_) {
      leader_is_asked_ = true;
      begin(calls_.leader, true);
    }
    if (now >= next_replica_) {
      next_replica_ = now + kNextReplica;
      begin(calls_.any_replica, false);
    }
  }

  void begin(const RaceCalls::Ask& ask, bool leader) REQUIRES(mutex_) {
    const auto left = std::chrono::ceil<milliseconds>(end_ - parts_.clock.monotonic());
    const milliseconds timeout = std::max(left, milliseconds(1));
    try {
      running_.emplace_back([this, &ask, leader, timeout](const std::stop_token& stop) {
        note(ask(timeout, stop), leader);
      });
    } catch (const std::system_error&) {  // the system grants no thread
      if (!leader) return;
      leader_is_asked_ = false;
      next_leader_ = parts_.clock.monotonic() + pause_.next();
    }
  }

  void note(Result<std::string> said, bool leader) {
    const MutexLock lock(mutex_);
    // The leader may know a pod that another replica refuses.
    const bool counts = said || (leader && !worth_repeating(said.error().code));
    if (leader) {
      const Monotonic now = parts_.clock.monotonic();
      leader_is_asked_ = false;
      next_leader_ = now + pause_.next();
      next_replica_ = std::min(next_replica_, now);
      if (!counts) leader_said_ = said;
    }
    if (counts && !answer_) answer_ = std::move(said);
    changed_ = true;
    wake_.notify_all();
  }

  void wait() {
    const MutexLock lock(mutex_);
    Monotonic until = std::min(end_, next_replica_);
    if (!leader_is_asked_) until = std::min(until, next_leader_);
    const auto left = std::chrono::ceil<milliseconds>(until - parts_.clock.monotonic());
    wake_.wait_for(mutex_, std::clamp(left, milliseconds(0), kLook),
                   [this]() REQUIRES(mutex_) { return changed_ || answer_; });
    changed_ = false;
  }

  const RaceCalls& calls_;
  const RaceParts& parts_;
  Mutex mutex_;
  CondVar wake_;
  RetryPause pause_ GUARDED_BY(mutex_);
  const Monotonic end_;
  Monotonic next_leader_ GUARDED_BY(mutex_), next_replica_ GUARDED_BY(mutex_);
  bool leader_is_asked_ GUARDED_BY(mutex_) = false;
  bool changed_ GUARDED_BY(mutex_) = false;
  std::optional<Result<std::string>> answer_ GUARDED_BY(mutex_), leader_said_ GUARDED_BY(mutex_);
  std::vector<std::jthread> running_;  // used by run()'s thread alone
};

}  // namespace

bool worth_repeating(ErrorCode code) {
  return code == ErrorCode::kUnavailable || code == ErrorCode::kTimeout ||
         code == ErrorCode::kThrottled;
}

milliseconds RetryPause::next() {
  const milliseconds half = pause_ / 2;
  pause_ = std::min(pause_ * 2, kLongestPause);
  return half + std::chrono::duration_cast<milliseconds>(random_fraction(random_) * half);
}

Result<std::string> race(const RaceCalls& calls, Patience patience, const RaceParts& parts) {
  return Race(calls, patience, parts).run();
}

}  // namespace compilecache::agent
