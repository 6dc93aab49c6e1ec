#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

namespace compilecache::testing {

// Calls `each` with 0 to count - 1, sixteen at a time: for questions to a server that takes its
// time. Exceptions end the program.
inline void in_parallel(size_t count, const std::function<void(size_t)>& each) {
  constexpr int kThreads = 16;
  std::atomic<size_t> next{0};
  std::vector<std::jthread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (size_t at = next++; at < count; at = next++) each(at);
    });
  }
}

}  // namespace compilecache::testing
