#include "operator/agents/fair_queue.hpp"

#include <gtest/gtest.h>

namespace compilecache::controller {
namespace {

using Queue = FairQueue<int>;

std::optional<int> next(Queue& queue) {
  auto item = queue.pop();
  return item ? std::optional(item->work) : std::nullopt;
}

TEST(FairQueue, SendersTakeTurns) {
  Queue queue({.most = 100, .most_of_one = 50, .at_once_of_one = 50});
  for (int i = 0; i < 10; ++i) queue.push("loud", 100 + i);
  queue.push("quiet", 1);
  queue.push("other", 2);
  EXPECT_EQ(next(queue), 100);
  EXPECT_EQ(next(queue), 1);
  EXPECT_EQ(next(queue), 2);
  for (int i = 1; i < 10; ++i) EXPECT_EQ(next(queue), 100 + i) << "in the order they came";
  EXPECT_TRUE(queue.empty());
  EXPECT_FALSE(queue.pop());
}

TEST(FairQueue, OneHasOnlySoManyAtWork) {
  Queue queue({.most = 100, .most_of_one = 50, .at_once_of_one = 2});
  for (int i = 0; i < 3; ++i) queue.push("loud", 100 + i);
  EXPECT_EQ(next(queue), 100);
  EXPECT_EQ(next(queue), 101);
  EXPECT_FALSE(queue.pop());
  EXPECT_FALSE(queue.empty());
  queue.push("quiet", 1);
  EXPECT_EQ(next(queue), 1);
  queue.done("loud");
  EXPECT_EQ(next(queue), 102);
}

TEST(FairQueue, OneCannotFillIt) {
  Queue queue({.most = 4, .most_of_one = 3, .at_once_of_one = 1});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(queue.push("loud", 1), Queue::Pushed::kYes);
  EXPECT_EQ(queue.push("loud", 1), Queue::Pushed::kTooManyOfOne);
  EXPECT_EQ(queue.push("quiet", 1), Queue::Pushed::kYes);
  EXPECT_EQ(queue.push("other", 1), Queue::Pushed::kFull);
  EXPECT_TRUE(queue.pop());
  EXPECT_EQ(queue.push("other", 1), Queue::Pushed::kYes);
}

}  // namespace
}  // namespace compilecache::controller
