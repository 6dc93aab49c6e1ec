#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace compilecache::archive {

// A fixed number of threads and two queues: what frees memory (creating files) goes before what
// takes it (decoding). The destructor waits for all tasks that were posted.
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

  void post_urgent(Task task);
  void post(Task task);
  // Until no task is queued or running. Not to be called by a task.
  void drain();
  // The same for a while; false: there are still some.
  bool drain_for(std::chrono::milliseconds longest);

 private:
  void work();
  // With the lock.
  [[nodiscard]] bool idle() const { return urgent_.empty() && normal_.empty() && running_ == 0; }
  void push(std::deque<Task>& queue, Task task);

  std::mutex mutex_;
  std::condition_variable posted_;
  std::condition_variable idle_;
  std::deque<Task> urgent_;
  std::deque<Task> normal_;
  size_t running_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace compilecache::archive
