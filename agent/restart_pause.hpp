#pragma once

#include <algorithm>
#include <chrono>

namespace compilecache::agent {

inline constexpr std::chrono::milliseconds kFirstRestartPause{100};
inline constexpr std::chrono::milliseconds kLongestRestartPause{300'000};
// As the kubelet's, after which it forgets that a container has crashed.
inline constexpr std::chrono::milliseconds kGoodRun{600'000};

// How long to wait before work that ended too early is started again: twice as long as before it
// was started last, up to a limit; the first pause again where it has run well for long. `before`
// is zero where it was never restarted. Pure.
constexpr std::chrono::milliseconds restart_pause(std::chrono::milliseconds before,
                                                  std::chrono::milliseconds ran) {
  if (ran >= kGoodRun) return kFirstRestartPause;
  return std::clamp(before * 2, kFirstRestartPause, kLongestRestartPause);
}

}  // namespace compilecache::agent
