#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <stdexcept>
#include <thread>

// Waits minutes for another thread, since a machine may be busy: a test that would wait forever
// fails instead, with a message.
//
//   const Responder respond = soon(held);                  // a std::promise's value, or it throws
//   EXPECT_TRUE(soon([&] { return server->idle(); }));

namespace compilecache::testing {

constexpr std::chrono::minutes kSoon{5};

template <typename T>
T soon(std::promise<T>& promise) {
  std::future<T> future = promise.get_future();
  if (future.wait_for(kSoon) != std::future_status::ready) {
    throw std::runtime_error("what the test waits for did not happen within five minutes");
  }
  return future.get();
}

[[nodiscard]] inline bool soon(const std::function<bool()>& holds) {
  const auto end = std::chrono::steady_clock::now() + kSoon;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace compilecache::testing
