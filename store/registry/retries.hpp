#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>

#include "base/cutoff.hpp"
#include "store/registry/refusal.hpp"

// How often and after which pauses something is tried again that a registry refused.
//
//   Retries retries(limits, sleep, cutoff);
//   for (;;) {
//     auto done = push();
//     if (done || !retries.again(done.error())) return done;
//   }

namespace compilecache::store {

struct RetryLimits {
  int attempts = 4;                                 // in all
  std::chrono::milliseconds first_pause{250};       // then twice as long each time
  std::chrono::milliseconds longest_pause{10'000};  // what Retry-After may ask for
  std::chrono::milliseconds all_pauses{20'000};
  // How long to go on while nobody answers: refused, unreachable, cut off. From the first attempt,
  // or from the one after the last answer. None: as long as the others say.
  std::optional<std::chrono::milliseconds> unanswered_for = std::nullopt;
};

using Sleeper = std::function<void(std::chrono::milliseconds)>;

// For one operation that is retried; one thread.
class Retries {
 public:
  // All three have to outlive it.
  Retries(const RetryLimits& limits, const Sleeper& sleep, const Cutoff& cutoff)
      : limits_(limits), sleep_(sleep), cutoff_(cutoff) {}

  // Whether to try once more; sleeps until then. Not where that would be after the cutoff.
  bool again(const Refusal& refusal) {
    if (!refusal.may_pass() || ++failed_ >= limits_.attempts) return false;
    const std::chrono::milliseconds pause =
        refusal.retry_after
            ? std::chrono::milliseconds(*refusal.retry_after)
            : std::min(limits_.first_pause * (1 << (failed_ - 1)), limits_.longest_pause);
    if (pause > limits_.longest_pause || slept_ + pause > limits_.all_pauses) return false;
    if (refusal.status == 0 && limits_.unanswered_for && taken() + pause > *limits_.unanswered_for)
      return false;
    if (std::chrono::steady_clock::now() + pause >= cutoff_.at()) return false;
    slept_ += pause;
    silent_pauses_ += pause;
    sleep_(pause);
    if (refusal.status != 0) {
      silent_since_ = std::chrono::steady_clock::now();
      silent_pauses_ = {};
    }
    return !cutoff_.passed();
  }

  // By when an attempt that begins now has to have a connection; none: there is no such bound.
  [[nodiscard]] std::optional<Cutoff::Time> connect_by() const {
    if (!limits_.unanswered_for) return std::nullopt;
    return silent_since_ + *limits_.unanswered_for;
  }

 private:
  // Sleepers need not sleep.
  [[nodiscard]] std::chrono::milliseconds taken() const {
    const auto passed = std::chrono::steady_clock::now() - silent_since_;
    return std::max(silent_pauses_, std::chrono::duration_cast<std::chrono::milliseconds>(passed));
  }

  const RetryLimits& limits_;
  const Sleeper& sleep_;
  const Cutoff& cutoff_;
  Cutoff::Time silent_since_ = std::chrono::steady_clock::now();
  int failed_ = 0;
  std::chrono::milliseconds slept_{0}, silent_pauses_{0};
};

}  // namespace compilecache::store
