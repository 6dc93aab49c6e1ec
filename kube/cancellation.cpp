#include "kube/cancellation.hpp"

#include <map>
#include <thread>
#include <utility>

#include "base/mutex.hpp"

namespace compilecache::kube {

struct Cancellation::State {
  Mutex mutex;
  CondVar changed;
  bool cancelled GUARDED_BY(mutex) = false;
  uint64_t next_id GUARDED_BY(mutex) = 1;
  std::map<uint64_t, std::function<void()>> callbacks GUARDED_BY(mutex);
  uint64_t running GUARDED_BY(mutex) = 0;  // the callback that is being run, and by whom
  std::thread::id runner GUARDED_BY(mutex);
};

Cancellation::Cancellation() : state_(std::make_shared<State>()) {}

void Cancellation::cancel() const {
  MutexLock lock(state_->mutex);
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
  const MutexLock lock(state_->mutex);
  return state_->cancelled;
}

bool Cancellation::wait_for(Duration time) const {
  const MutexLock lock(state_->mutex);
  return state_->changed.wait_for(state_->mutex, time,
                                  [&]() REQUIRES(state_->mutex) { return state_->cancelled; });
}

std::unique_ptr<Cancellation::Registration> Cancellation::on_cancel(
    std::function<void()> callback) const {
  uint64_t id = 0;
  {
    const MutexLock lock(state_->mutex);
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
  const MutexLock lock(state_->mutex);
  state_->callbacks.erase(id_);
  if (state_->runner == std::this_thread::get_id()) return;
  state_->changed.wait(state_->mutex,
                       [&]() REQUIRES(state_->mutex) { return state_->running != id_; });
}

}  // namespace compilecache::kube
