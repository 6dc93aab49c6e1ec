#include "operator/review_pool.hpp"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/log.hpp"

namespace compilecache::controller {

using std::chrono::milliseconds;

struct ReviewPool::Impl {
  struct Task {
    Work work;
    Monotonic since;
  };

  Impl(int count, const Clock& its_clock)
      : threads(static_cast<size_t>(std::max(2, count))), clock(its_clock), begun(threads) {}

  std::optional<Task> next_locked(bool& is_large);
  void run(size_t number);
  [[nodiscard]] milliseconds since(Monotonic begin) const {
    return std::chrono::duration_cast<milliseconds>(clock.monotonic() - begin);
  }

  const size_t threads;
  const Clock& clock;
  mutable std::mutex mutex;
  std::condition_variable wake;
  bool stopping = false;
  std::deque<Task> ordinary, large;
  size_t large_begun = 0;
  std::vector<std::optional<Monotonic>> begun;  // by each thread, what it works on
  std::vector<std::thread> workers;
};

std::optional<ReviewPool::Impl::Task> ReviewPool::Impl::next_locked(bool& is_large) {
  is_large = ordinary.empty() && !large.empty() && large_begun < threads / 2;
  std::deque<Task>& from = is_large ? large : ordinary;
  if (from.empty()) return std::nullopt;
  Task task = std::move(from.front());
  from.pop_front();
  return task;
}

void ReviewPool::Impl::run(size_t number) {
  std::unique_lock lock(mutex);
  for (;;) {
    bool is_large = false;
    std::optional<Task> task;
    wake.wait(lock, [&] { return stopping || (task = next_locked(is_large)); });
    if (!task) return;
    if (is_large) ++large_begun;
    begun[number] = clock.monotonic();
    lock.unlock();
    try {
      task->work();
    } catch (const std::exception& exception) {
      log_error("looking at a pod failed", {{"error", exception.what()}});
    }
    task.reset();  // what it held goes before the next begins
    lock.lock();
    begun[number].reset();
    // Another large one may have waited for this one's end.
    if (is_large && large_begun-- == threads / 2) wake.notify_one();
  }
}

ReviewPool::ReviewPool(int threads, const Clock& clock)
    : impl_(std::make_unique<Impl>(threads, clock)) {}

ReviewPool::~ReviewPool() { stop(); }

void ReviewPool::start() {
  for (size_t i = 0; i < impl_->threads; ++i) {
    impl_->workers.emplace_back([this, i] { impl_->run(i); });
  }
}

void ReviewPool::stop() {
  {
    std::deque<Impl::Task> ordinary;
    std::deque<Impl::Task> large;
    const std::lock_guard lock(impl_->mutex);
    impl_->stopping = true;
    ordinary.swap(impl_->ordinary);
    large.swap(impl_->large);
  }  // dropped without the lock, before what is being done has ended
  impl_->wake.notify_all();
  for (std::thread& worker : impl_->workers) worker.join();
  impl_->workers.clear();
}

bool ReviewPool::add(bool is_large, Work work) {
  {
    const std::lock_guard lock(impl_->mutex);
    auto& to = is_large ? impl_->large : impl_->ordinary;
    if (impl_->stopping || to.size() >= (is_large ? kMostLargeWaiting : kMostWaiting)) return false;
    to.push_back({std::move(work), impl_->clock.monotonic()});
  }
  impl_->wake.notify_one();
  return true;
}

milliseconds ReviewPool::longest_wait() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->ordinary.empty() ? milliseconds(0) : impl_->since(impl_->ordinary.front().since);
}

milliseconds ReviewPool::longest_work() const {
  const std::lock_guard lock(impl_->mutex);
  milliseconds longest{0};
  for (const auto& begin : impl_->begun) {
    if (begin) longest = std::max(longest, impl_->since(*begin));
  }
  return longest;
}

}  // namespace compilecache::controller
