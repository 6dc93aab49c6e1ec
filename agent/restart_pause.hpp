#pragma once

#include <algorithm>
#include <chrono>

namespace compilecache::agent {

inline constexpr std::chrono::milliseconds kFirstRestartPause{100};
inline constexpr std::chrono::milliseconds kLongestRestartPause{300'000};
// A run of this length counts as good; the kubelet forgets after as long that a container has
// crashed.
inline constexpr std::chrono::milliseconds kGoodRun{600'000};

// How long to wait before work that ended too early is started again: twice the previous pause, up
// to a limit, or the first pause after a good run. `before` is the previous pause, zero where it
// was never restarted. Pure.
constexpr std::chrono::milliseconds restart_pause(std::chrono::milliseconds before,
                                                  std::chrono::milliseconds ran) {
  if (ran >= kGoodRun) return kFirstRestartPause;
  return std::clamp(before * 2, kFirstRestartPause, kLongestRestartPause);
}

}  // namespace compilecache::agent
