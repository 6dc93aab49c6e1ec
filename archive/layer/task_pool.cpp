#include "archive/layer/task_pool.hpp"

#include <exception>

namespace compilecache::archive {

TaskPool::TaskPool(unsigned threads) {
  threads_.reserve(threads);
  try {
    for (unsigned i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
  } catch (const std::exception&) {
    // A limit on processes or memory: those that there are will do, or else whoever posts.
  }
}

TaskPool::~TaskPool() {
  drain();
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  posted_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void TaskPool::post_urgent(Task task) { push(urgent_, std::move(task)); }

void TaskPool::post(Task task) { push(normal_, std::move(task)); }

void TaskPool::push(std::deque<Task>& queue, Task task) {
  if (threads_.empty()) return task();
  {
    const std::lock_guard lock(mutex_);
    queue.push_back(std::move(task));
  }
  posted_.notify_one();
}

void TaskPool::drain() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [this] { return idle(); });
}

bool TaskPool::drain_for(std::chrono::milliseconds longest) {
  std::unique_lock lock(mutex_);
  return idle_.wait_for(lock, longest, [this] { return idle(); });
}

void TaskPool::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    posted_.wait(lock, [this] { return stopping_ || !urgent_.empty() || !normal_.empty(); });
    std::deque<Task>& queue = urgent_.empty() ? normal_ : urgent_;
    if (queue.empty()) return;
    {
      const Task task = std::move(queue.front());
      queue.pop_front();
      ++running_;
      lock.unlock();
      task();
    }  // what the task holds is gone before anybody hears that it is done
    lock.lock();
    --running_;
    if (idle()) idle_.notify_all();
  }
}

}  // namespace compilecache::archive
