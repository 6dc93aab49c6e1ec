#include "archive/layer/task_pool.hpp"

#include <exception>

namespace compilecache::archive {

TaskPool::TaskPool(unsigned threads) {
  threads_.reserve(threads);
  try {
    for (unsigned i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
  } catch (const std::exception&) {
    // A limit on processes or memory was reached: the threads that exist do the tasks, or else the
    // thread that posts them.
  }
}

TaskPool::~TaskPool() {
  drain();
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  posted_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void TaskPool::post_urgent(Task task) { push(Urgency::kUrgent, std::move(task)); }

void TaskPool::post(Task task) { push(Urgency::kNormal, std::move(task)); }

void TaskPool::push(Urgency urgency, Task task) {
  if (threads_.empty()) return task();
  {
    const MutexLock lock(mutex_);
    (urgency == Urgency::kUrgent ? urgent_ : normal_).push_back(std::move(task));
  }
  posted_.notify_one();
}

void TaskPool::drain() {
  const MutexLock lock(mutex_);
  idle_.wait(mutex_, [this]() REQUIRES(mutex_) { return idle(); });
}

bool TaskPool::drain_for(std::chrono::milliseconds longest) {
  const MutexLock lock(mutex_);
  return idle_.wait_for(mutex_, longest, [this]() REQUIRES(mutex_) { return idle(); });
}

void TaskPool::work() {
  MutexLock lock(mutex_);
  for (;;) {
    posted_.wait(mutex_, [this]() REQUIRES(mutex_) {
      return stopping_ || !urgent_.empty() || !normal_.empty();
    });
    std::deque<Task>& queue = urgent_.empty() ? normal_ : urgent_;
    if (queue.empty()) return;
    {
      const Task task = std::move(queue.front());
      queue.pop_front();
      ++running_;
      lock.unlock();
      task();
    }  // destroys the task before it counts as done
    lock.lock();
    --running_;
    if (idle()) idle_.notify_all();
  }
}

}  // namespace compilecache::archive
