#include "kube/workqueue.hpp"

#include <algorithm>
#include <cmath>

namespace compilecache::kube {
namespace {
// Clocks may be set or faked: due times are looked at again at least this often.
constexpr Duration kLongestSleep = std::chrono::seconds(10);
}  // namespace

WorkQueue::WorkQueue(WorkQueueOptions options, const Clock& clock)
    : options_(options),
      clock_(clock),
      tokens_(options.bucket_burst),
      tokens_at_(clock.monotonic()) {}

void WorkQueue::add(const std::string& key, Priority priority) {
  const MutexLock lock(mutex_);
  add_locked(key, priority);
}

void WorkQueue::add_after(const std::string& key, Duration delay, Priority priority) {
  const MutexLock lock(mutex_);
  add_after_locked(key, delay, priority);
}

void WorkQueue::add_rate_limited(const std::string& key) {
  const MutexLock lock(mutex_);
  const int failures = failures_[key]++;
  const double own = double(options_.failure_first.count()) * std::pow(2.0, failures);
  const Duration capped(int64_t(std::min(own, double(options_.failure_cap.count()))));
  const auto worked_on = processing_.find(key);
  const Priority priority = worked_on == processing_.end() ? Priority::kLive : worked_on->second;
  add_after_locked(key, std::max(capped, bucket_delay_locked()), priority);
}

void WorkQueue::forget(const std::string& key) {
  const MutexLock lock(mutex_);
  failures_.erase(key);
}

int WorkQueue::failures(const std::string& key) const {
  const MutexLock lock(mutex_);
  auto found = failures_.find(key);
  return found == failures_.end() ? 0 : found->second;
}

std::optional<std::string> WorkQueue::get() {
  const MutexLock lock(mutex_);
  while (true) {
    if (auto key = pop_locked()) return key;
    if (shutting_down_) return std::nullopt;
    Duration sleep = kLongestSleep;
    if (!by_time_.empty()) {
      const Duration left = by_time_.begin()->first - clock_.monotonic();
      sleep = std::clamp<Duration>(left, Duration(0), kLongestSleep);
    }
    changed_.wait_for(mutex_, sleep);
  }
}

void WorkQueue::done(const std::string& key) {
  const MutexLock lock(mutex_);
  processing_.erase(key);
  if (auto again = dirty_.find(key); again != dirty_.end()) push_locked(key, again->second);
  changed_.notify_all();
}

void WorkQueue::shut_down() {
  const MutexLock lock(mutex_);
  shutting_down_ = true;
  delays_.clear();
  by_time_.clear();
  changed_.notify_all();
}

size_t WorkQueue::size() const {
  const MutexLock lock(mutex_);
  return dirty_.size();
}

void WorkQueue::add_locked(const std::string& key, Priority priority) {
  if (shutting_down_) return;
  // The key is queued at once, which is sooner than any delay.
  if (auto delayed = delays_.find(key); delayed != delays_.end()) {
    priority = std::max(priority, delayed->second.priority);
    by_time_.erase({delayed->second.due, key});
    delays_.erase(delayed);
  }
  const auto [known, fresh] = dirty_.try_emplace(key, priority);
  const bool raised = !fresh && priority > known->second;
  if (!fresh && !raised) return;
  known->second = priority;
  if (!processing_.contains(key)) push_locked(key, priority);  // else done() does
}

void WorkQueue::push_locked(const std::string& key, Priority priority) {
  (priority == Priority::kLive ? live_ : start_).push_back(key);
  changed_.notify_all();
}

void WorkQueue::add_after_locked(const std::string& key, Duration delay, Priority priority) {
  if (shutting_down_) return;
  if (delay <= Duration(0)) {
    add_locked(key, priority);
    return;
  }
  Monotonic due = clock_.monotonic() + delay;
  if (auto known = delays_.find(key); known != delays_.end()) {
    priority = std::max(priority, known->second.priority);
    due = std::min(due, known->second.due);
    by_time_.erase({known->second.due, key});
  }
  delays_[key] = {due, priority};
  by_time_.insert({due, key});
  changed_.notify_all();
}

void WorkQueue::move_due_locked() {
  const Monotonic now = clock_.monotonic();
  while (!by_time_.empty() && by_time_.begin()->first <= now) {
    const std::string key = by_time_.begin()->second;
    add_locked(key, delays_.at(key).priority);  // takes it out of both
  }
}

std::optional<std::string> WorkQueue::pop_locked() {
  move_due_locked();
  for (std::deque<std::string>* queue : {&live_, &start_}) {
    while (!queue->empty()) {
      std::string key = std::move(queue->front());
      queue->pop_front();
      const auto waiting = dirty_.find(key);
      if (waiting == dirty_.end() || processing_.contains(key)) continue;  // went with live_
      processing_.emplace(key, waiting->second);
      dirty_.erase(waiting);
      return key;
    }
  }
  return std::nullopt;
}

// Takes one token, on credit if need be, and says how long until it is there.
Duration WorkQueue::bucket_delay_locked() {
  const Monotonic now = clock_.monotonic();
  const double seconds = std::chrono::duration<double>(now - tokens_at_).count();
  tokens_ = std::min(options_.bucket_burst, tokens_ + seconds * options_.bucket_per_second) - 1;
  tokens_at_ = now;
  if (tokens_ >= 0) return Duration(0);
  return std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(-tokens_ / options_.bucket_per_second));
}

}  // namespace compilecache::kube
