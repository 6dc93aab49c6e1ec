#include "kube/worker.hpp"

#include <exception>
#include <utility>

#include "base/log.hpp"

namespace compilecache::kube {

Workers::Workers(std::string name, WorkQueue& queue, Reconcile reconcile, int threads)
    : name_(std::move(name)), queue_(queue), reconcile_(std::move(reconcile)) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { run(); });
}

Workers::~Workers() { stop(); }

void Workers::stop() {
  queue_.shut_down();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void Workers::run() {
  while (auto key = queue_.get()) {
    work(*key);
    queue_.done(*key);
  }
}

void Workers::work(const std::string& key) {
  Result<Reconciled> result;
  try {
    result = reconcile_(key);
  } catch (const std::exception& error) {
    result = fail(ErrorCode::kInternal, std::string("exception: ") + error.what());
  }
  if (result) {
    ++succeeded_;
    queue_.forget(key);
    if (result->again_after > Duration(0)) queue_.add_after(key, result->again_after);
    return;
  }
  ++failed_;
  const bool again = result.error().code != ErrorCode::kInvalid;
  log_warn(again ? "reconciling failed, trying again" : "reconciling failed, waiting for a change",
           {{"controller", name_}, {"key", key}, {"error", result.error().message}});
  if (again) {
    queue_.add_rate_limited(key);
  } else {
    queue_.forget(key);
  }
}

}  // namespace compilecache::kube
