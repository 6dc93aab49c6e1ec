#pragma once

#include <algorithm>
#include <chrono>
#include <functional>

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
};

using Sleeper = std::function<void(std::chrono::milliseconds)>;

// Of one thing that is tried; one thread.
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
    if (std::chrono::steady_clock::now() + pause >= cutoff_.at()) return false;
    slept_ += pause;
    sleep_(pause);
    return !cutoff_.passed();
  }

 private:
  const RetryLimits& limits_;
  const Sleeper& sleep_;
  const Cutoff& cutoff_;
  int failed_ = 0;
  std::chrono::milliseconds slept_{0};
};

}  // namespace compilecache::store
