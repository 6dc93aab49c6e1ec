#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "base/mutex.hpp"

namespace compilecache::archive {

// A fixed number of threads with two queues: tasks that free memory (creating files) run before
// tasks that take it (decoding). The destructor waits for all tasks that were posted.
//
// post() may be called from any thread, tasks included. Without threads (none were asked for, or
// the system grants none) the task is done before post() returns, so the caller may hold no lock
// that the task takes.
class TaskPool {
 public:
  using Task = std::function<void()>;

  explicit TaskPool(unsigned threads);
  ~TaskPool();
  TaskPool(const TaskPool&) = delete;
  TaskPool& operator=(const TaskPool&) = delete;

  void post_urgent(Task task) EXCLUDES(mutex_);
  void post(Task task) EXCLUDES(mutex_);
  // Waits until no task is queued or running. A task must not call it.
  void drain();
  // The same, but waits at most this long. False: there are still tasks.
  bool drain_for(std::chrono::milliseconds longest);

 private:
  void work();
  [[nodiscard]] bool idle() const REQUIRES(mutex_) {
    return urgent_.empty() && normal_.empty() && running_ == 0;
  }
  enum class Urgency { kUrgent, kNormal };
  void push(Urgency urgency, Task task) EXCLUDES(mutex_);

  Mutex mutex_;
  CondVar posted_;
  CondVar idle_;
  std::deque<Task> urgent_ GUARDED_BY(mutex_);
  std::deque<Task> normal_ GUARDED_BY(mutex_);
  size_t running_ GUARDED_BY(mutex_) = 0;
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace compilecache::archive
