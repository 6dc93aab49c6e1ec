#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>

#include "base/clock.hpp"

// Threads that answer reviews in place of the I/O threads: however long a review takes, the next
// one is read, connections end in time and signals are handled.
//
//   ReviewPool pool(4, clock);
//   pool.start();
//   if (!pool.add(is_large, [=] { respond(answer(request)); })) ...  // too many wait
//   pool.stop();
//
// Large reviews get half of the threads at most, so that ordinary ones never wait for them.
// Thread-safe.

namespace compilecache::controller {

class ReviewPool {
 public:
  using Work = std::function<void()>;

  // At a millisecond for each a thousand reviews are a second of work; a large one takes up to
  // fifty.
  static constexpr size_t kMostWaiting = 1000;
  static constexpr size_t kMostLargeWaiting = 20;

  // `threads`: at least 2. The clock must outlive it.
  ReviewPool(int threads, const Clock& clock);
  ~ReviewPool();
  ReviewPool(const ReviewPool&) = delete;
  ReviewPool& operator=(const ReviewPool&) = delete;

  // Work that is added before start() waits.
  void start();
  // Finishes work under way and drops what waits.
  void stop();

  // False when so many of its kind wait that its answer would come too late, and after stop().
  [[nodiscard]] bool add(bool is_large, Work work);

  // How long the first that is not large has waited for a thread; zero when none does.
  [[nodiscard]] std::chrono::milliseconds longest_wait() const;
  // How long the oldest that was begun has been worked on; zero when none is.
  [[nodiscard]] std::chrono::milliseconds longest_work() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace compilecache::controller
