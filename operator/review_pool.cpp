#include "operator/review_pool.hpp"

#include <algorithm>
#include <deque>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/log.hpp"
#include "base/mutex.hpp"

namespace compilecache::controller {

using std::chrono::milliseconds;

struct ReviewPool::Impl {
  struct Task {
    Work work;
    Monotonic since;
  };

  Impl(int count, const Clock& its_clock)
      : threads(static_cast<size_t>(std::max(2, count))), clock(its_clock), begun(threads) {}

  std::optional<Task> next_locked(bool& is_large) REQUIRES(mutex);
  void run(size_t number);
  [[nodiscard]] milliseconds since(Monotonic begin) const {
    return std::chrono::duration_cast<milliseconds>(clock.monotonic() - begin);
  }

  const size_t threads;
  const Clock& clock;
  mutable Mutex mutex;
  CondVar wake;
  bool stopping GUARDED_BY(mutex) = false;
  std::deque<Task> ordinary GUARDED_BY(mutex);
  std::deque<Task> large GUARDED_BY(mutex);
  size_t large_begun GUARDED_BY(mutex) = 0;
  // By each thread, what it works on.
  std::vector<std::optional<Monotonic>> begun GUARDED_BY(mutex);
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
  MutexLock lock(mutex);
  for (;;) {
    bool is_large = false;
    std::optional<Task> task;
    wake.wait(mutex, [&]() REQUIRES(mutex) { return stopping || (task = next_locked(is_large)); });
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
    const MutexLock lock(impl_->mutex);
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
    const MutexLock lock(impl_->mutex);
    auto& to = is_large ? impl_->large : impl_->ordinary;
    if (impl_->stopping || to.size() >= (is_large ? kMostLargeWaiting : kMostWaiting)) return false;
    to.push_back({std::move(work), impl_->clock.monotonic()});
  }
  impl_->wake.notify_one();
  return true;
}

milliseconds ReviewPool::longest_wait() const {
  const MutexLock lock(impl_->mutex);
  return impl_->ordinary.empty() ? milliseconds(0) : impl_->since(impl_->ordinary.front().since);
}

milliseconds ReviewPool::longest_work() const {
  const MutexLock lock(impl_->mutex);
  milliseconds longest{0};
  for (const auto& begin : impl_->begun) {
    if (begin) longest = std::max(longest, impl_->since(*begin));
  }
  return longest;
}

}  // namespace compilecache::controller
