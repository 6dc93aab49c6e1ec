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

void WorkQueue::add(const std::string& key) {
  std::lock_guard<std::mutex> lock(mutex_);
  add_locked(key);
}

void WorkQueue::add_after(const std::string& key, Duration delay) {
  std::lock_guard<std::mutex> lock(mutex_);
  add_after_locked(key, delay);
}

void WorkQueue::add_rate_limited(const std::string& key) {
  std::lock_guard<std::mutex> lock(mutex_);
  const int failures = failures_[key]++;
  const double own = double(options_.failure_first.count()) * std::pow(2.0, failures);
  const Duration capped(int64_t(std::min(own, double(options_.failure_cap.count()))));
  add_after_locked(key, std::max(capped, bucket_delay_locked()));
}

void WorkQueue::forget(const std::string& key) {
  std::lock_guard<std::mutex> lock(mutex_);
  failures_.erase(key);
}

int WorkQueue::failures(const std::string& key) const {
  std::lock_guard<std::mutex> lock(mutex_);
  auto found = failures_.find(key);
  return found == failures_.end() ? 0 : found->second;
}

std::optional<std::string> WorkQueue::get() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    if (auto key = pop_locked()) return key;
    if (shutting_down_) return std::nullopt;
    Duration sleep = kLongestSleep;
    if (!by_time_.empty()) {
      const Duration left = by_time_.begin()->first - clock_.monotonic();
      sleep = std::clamp<Duration>(left, Duration(0), kLongestSleep);
    }
    changed_.wait_for(lock, sleep);
  }
}

std::optional<std::string> WorkQueue::try_get() {
  std::lock_guard<std::mutex> lock(mutex_);
  return pop_locked();
}

void WorkQueue::done(const std::string& key) {
  std::lock_guard<std::mutex> lock(mutex_);
  processing_.erase(key);
  if (dirty_.contains(key)) queue_.push_back(key);
  changed_.notify_all();
}

void WorkQueue::shut_down() {
  std::lock_guard<std::mutex> lock(mutex_);
  shutting_down_ = true;
  delays_.clear();
  by_time_.clear();
  changed_.notify_all();
}

void WorkQueue::shut_down_with_drain() {
  shut_down();
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [&] { return processing_.empty() && queue_.empty(); });
}

size_t WorkQueue::size() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return queue_.size();
}

size_t WorkQueue::delayed() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return delays_.size();
}

void WorkQueue::add_locked(const std::string& key) {
  if (shutting_down_ || !dirty_.insert(key).second) return;
  if (processing_.contains(key)) return;  // done() puts it into the queue
  queue_.push_back(key);
  changed_.notify_all();
}

void WorkQueue::add_after_locked(const std::string& key, Duration delay) {
  if (shutting_down_) return;
  if (delay <= Duration(0)) {
    add_locked(key);
    return;
  }
  const Monotonic due = clock_.monotonic() + delay;
  auto known = delays_.find(key);
  if (known != delays_.end()) {
    if (known->second <= due) return;
    by_time_.erase({known->second, key});
  }
  delays_[key] = due;
  by_time_.insert({due, key});
  changed_.notify_all();
}

void WorkQueue::move_due_locked() {
  const Monotonic now = clock_.monotonic();
  while (!by_time_.empty() && by_time_.begin()->first <= now) {
    const std::string key = by_time_.begin()->second;
    by_time_.erase(by_time_.begin());
    delays_.erase(key);
    add_locked(key);
  }
}

std::optional<std::string> WorkQueue::pop_locked() {
  move_due_locked();
  if (queue_.empty()) return std::nullopt;
  std::string key = std::move(queue_.front());
  queue_.pop_front();
  processing_.insert(key);
  dirty_.erase(key);
  return key;
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
