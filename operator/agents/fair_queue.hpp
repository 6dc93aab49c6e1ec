#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>

// Work that waits for threads, shared out among those who sent it, so that one who sends without
// end keeps nobody else waiting.
//
//   FairQueue<Task> queue({.most = 4096, .most_of_one = 256, .at_once_of_one = 4});
//   if (queue.push(sender, std::move(task)) != FairQueue<Task>::Pushed::kYes) ...   // refused
//   if (auto next = queue.pop()) { next->work(); queue.done(next->sender); }
//
// Senders take turns; each has so many tasks at work at most, so that its slow ones do not take all
// threads, and so many waiting. Not thread-safe: the caller's mutex guards it.

namespace compilecache::controller {

struct FairQueueLimits {
  size_t most = 1;            // that wait, of all together
  size_t most_of_one = 1;     // that wait
  size_t at_once_of_one = 1;  // that were popped and are not done
};

template <typename Task>
class FairQueue {
 public:
  enum class Pushed { kYes, kFull, kTooManyOfOne };
  struct Item {
    std::string sender;
    Task work;
  };

  explicit FairQueue(FairQueueLimits limits) : limits_(limits) {}

  // The task is moved from only when it is taken.
  Pushed push(const std::string& sender, Task&& task) {
    if (waiting_ >= limits_.most) return Pushed::kFull;
    Sender& its = senders_[sender];
    if (its.waiting.size() >= limits_.most_of_one) return Pushed::kTooManyOfOne;
    if (its.waiting.empty()) turns_.push_back(sender);
    its.waiting.push_back(std::move(task));
    ++waiting_;
    return Pushed::kYes;
  }

  // The next one's whose sender has not as many at work as it may; nothing: there is none now.
  std::optional<Item> pop() {
    for (auto turn = turns_.begin(); turn != turns_.end(); ++turn) {
      Sender& its = senders_.at(*turn);
      if (its.at_work >= limits_.at_once_of_one) continue;
      Item item{*turn, std::move(its.waiting.front())};
      its.waiting.pop_front();
      ++its.at_work;
      --waiting_;
      turns_.erase(turn);
      if (!its.waiting.empty()) turns_.push_back(item.sender);
      return item;
    }
    return std::nullopt;
  }

  void done(const std::string& sender) {
    const auto its = senders_.find(sender);
    if (--its->second.at_work == 0 && its->second.waiting.empty()) senders_.erase(its);
  }

  [[nodiscard]] bool empty() const { return waiting_ == 0; }

 private:
  struct Sender {
    std::deque<Task> waiting;
    size_t at_work = 0;
  };

  const FairQueueLimits limits_;
  std::map<std::string, Sender> senders_;
  std::deque<std::string> turns_;  // who has something waiting, the next one first
  size_t waiting_ = 0;
};

}  // namespace compilecache::controller
