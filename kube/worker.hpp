#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "kube/workqueue.hpp"

// Threads that take keys from a WorkQueue and reconcile them.
//
//   Workers workers("compilecache", queue, [&](const std::string& key) -> Result<Reconciled> {
//     ...
//     return Reconciled{.again_after = std::chrono::minutes(5)};
//   });
//
// As in controller-runtime an error is logged and the key tried again with the queue's delays, and
// a success resets them. kInvalid is not tried again until the object changes. An exception counts
// as an error. stop() and the destructor let work under way finish.

namespace compilecache::kube {

struct Reconciled {
  Duration again_after{0};  // 0: only when something changes
};
using Reconcile = std::function<Result<Reconciled>(const std::string& key)>;

class Workers {
 public:
  Workers(std::string name, WorkQueue& queue, Reconcile reconcile, int threads = 1);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // Shuts the queue down.
  void stop();

  [[nodiscard]] uint64_t succeeded() const { return succeeded_; }
  [[nodiscard]] uint64_t failed() const { return failed_; }

 private:
  void run();
  void work(const std::string& key);

  const std::string name_;
  WorkQueue& queue_;
  const Reconcile reconcile_;
  std::atomic<uint64_t> succeeded_{0};
  std::atomic<uint64_t> failed_{0};
  std::vector<std::thread> threads_;
};

}  // namespace compilecache::kube
