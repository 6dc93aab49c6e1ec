#include "kube/cancellation.hpp"

#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

namespace compilecache::kube {

struct Cancellation::State {
  std::mutex mutex;
  std::condition_variable changed;
  bool cancelled = false;
  uint64_t next_id = 1;
  std::map<uint64_t, std::function<void()>> callbacks;
  uint64_t running = 0;  // the callback that is being run, and by whom
  std::thread::id runner;
};

Cancellation::Cancellation() : state_(std::make_shared<State>()) {}

void Cancellation::cancel() const {
  std::unique_lock<std::mutex> lock(state_->mutex);
  if (state_->cancelled) return;
  state_->cancelled = true;
  state_->runner = std::this_thread::get_id();
  state_->changed.notify_all();
  while (!state_->callbacks.empty()) {
    auto first = state_->callbacks.extract(state_->callbacks.begin());
    state_->running = first.key();
    lock.unlock();
    first.mapped()();
    lock.lock();
    state_->running = 0;
    state_->changed.notify_all();
  }
}

bool Cancellation::cancelled() const {
  std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->cancelled;
}

bool Cancellation::wait_for(Duration time) const {
  std::unique_lock<std::mutex> lock(state_->mutex);
  return state_->changed.wait_for(lock, time, [&] { return state_->cancelled; });
}

std::unique_ptr<Cancellation::Registration> Cancellation::on_cancel(
    std::function<void()> callback) const {
  uint64_t id = 0;
  {
    std::lock_guard<std::mutex> lock(state_->mutex);
    if (!state_->cancelled) {
      id = state_->next_id++;
      state_->callbacks.emplace(id, std::move(callback));
      return std::make_unique<Registration>(state_, id);
    }
  }
  callback();
  return std::make_unique<Registration>(state_, id);
}

Cancellation::Registration::Registration(std::shared_ptr<State> state, uint64_t id)
    : state_(std::move(state)), id_(id) {}

Cancellation::Registration::~Registration() {
  if (id_ == 0) return;
  std::unique_lock<std::mutex> lock(state_->mutex);
  state_->callbacks.erase(id_);
  if (state_->runner == std::this_thread::get_id()) return;
  state_->changed.wait(lock, [&] { return state_->running != id_; });
}

}  // namespace compilecache::kube
