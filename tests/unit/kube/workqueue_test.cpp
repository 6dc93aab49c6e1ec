#include "kube/workqueue.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>

#include "base/random.hpp"
#include "kube/worker.hpp"
#include "tests/support/soon.hpp"

namespace compilecache::kube {
namespace {

using compilecache::testing::soon;
using std::chrono::milliseconds;
using std::chrono::seconds;

class WorkQueueTest : public ::testing::Test {
 protected:
  // The next live key, if any is due: behind them waits a key of the start.
  std::optional<std::string> take() {
    queue.add("nothing", Priority::kStart);
    auto key = queue.get();
    if (key != "nothing") return key;
    queue.done("nothing");
    return std::nullopt;
  }

  FakeClock clock;
  WorkQueue queue{{}, clock};
};

TEST_F(WorkQueueTest, GivesKeysInOrderAndEachOnce) {
  queue.add("a");
  queue.add("b");
  queue.add("a");
  EXPECT_EQ(queue.size(), 2U);
  EXPECT_EQ(take(), "a");
  EXPECT_EQ(take(), "b");
  EXPECT_EQ(take(), std::nullopt);
}

TEST_F(WorkQueueTest, AKeyAddedWhileWorkedOnComesAgainOnlyAfterDone) {
  queue.add("a");
  take();
  queue.add("a");
  queue.add("a");
  EXPECT_EQ(take(), std::nullopt) << "two workers would have the same key";
  queue.done("a");
  EXPECT_EQ(take(), "a");
  queue.done("a");
  EXPECT_EQ(take(), std::nullopt);
}

TEST_F(WorkQueueTest, ADelayedKeyComesWhenItsTimeIsOver) {
  queue.add_after("a", seconds(5));
  EXPECT_EQ(take(), std::nullopt);
  clock.advance(seconds(5));
  EXPECT_EQ(take(), "a");
}

TEST_F(WorkQueueTest, OfTwoDelaysTheEarlierCounts) {
  queue.add_after("a", seconds(50));
  queue.add_after("a", seconds(5));
  queue.add_after("a", seconds(70));
  clock.advance(seconds(5));
  EXPECT_EQ(take(), "a");
  queue.done("a");
  clock.advance(seconds(100));
  EXPECT_EQ(take(), std::nullopt);
}

TEST_F(WorkQueueTest, AddingNowIsTheShortestDelay) {
  queue.add_after("a", seconds(5));
  queue.add("a");
  EXPECT_EQ(take(), "a");
  queue.done("a");
  clock.advance(seconds(5));
  EXPECT_EQ(take(), std::nullopt);
}

TEST_F(WorkQueueTest, WhatHappensNowGoesBeforeTheStart) {
  for (const char* key : {"old1", "old2", "old3"}) queue.add(key, Priority::kStart);
  queue.add("new");
  queue.add("old3");                   // changes now: no longer of the start
  queue.add("new", Priority::kStart);  // the higher priority stays
  std::vector<std::string> order;
  for (int i = 0; i < 4; ++i) order.push_back(*queue.get());
  EXPECT_EQ(order, (std::vector<std::string>{"new", "old3", "old1", "old2"}));
  EXPECT_EQ(queue.size(), 0U);
}

TEST_F(WorkQueueTest, ADelayedAddKeepsTheHigherPriorityAndTheShorterDelay) {
  queue.add_after("a", seconds(1), Priority::kStart);
  queue.add_after("a", seconds(9), Priority::kLive);
  queue.add("b", Priority::kStart);
  clock.advance(seconds(1));
  EXPECT_EQ(queue.get(), "a");
  EXPECT_EQ(queue.get(), "b");
}

TEST_F(WorkQueueTest, AKeyThatFailsComesBackWithThePriorityItHad) {
  queue.add("a", Priority::kStart);
  ASSERT_EQ(queue.get(), "a");
  queue.add_rate_limited("a");
  queue.done("a");
  clock.advance(seconds(1));
  queue.add("live");
  EXPECT_EQ(queue.get(), "live");
  EXPECT_EQ(queue.get(), "a");
}

TEST_F(WorkQueueTest, FailuresWaitLongerAndLonger) {
  for (const int expected : {5, 10, 20, 40}) {
    queue.add_rate_limited("a");
    clock.advance(milliseconds(expected) - std::chrono::nanoseconds(1));
    EXPECT_EQ(take(), std::nullopt) << expected;
    clock.advance(std::chrono::nanoseconds(1));
    EXPECT_EQ(take(), "a") << expected;
    queue.done("a");
  }
  EXPECT_EQ(queue.failures("a"), 4);
  queue.forget("a");
  queue.add_rate_limited("a");
  clock.advance(milliseconds(5));
  EXPECT_EQ(take(), "a");
}

TEST_F(WorkQueueTest, OneKeysDelayIsCappedAt1000Seconds) {
  for (int i = 0; i < 70; ++i) queue.add_rate_limited("a");  // 2^69 would overflow
  clock.advance(milliseconds(5));
  ASSERT_EQ(take(), "a");  // the earliest of all those delays
  queue.done("a");
  clock.advance(std::chrono::hours(1));
  queue.add_rate_limited("a");
  clock.advance(seconds(999));
  EXPECT_EQ(take(), std::nullopt);
  clock.advance(seconds(1));
  EXPECT_EQ(take(), "a");
}

TEST_F(WorkQueueTest, ABurstOf100IsFreeThenTenASecond) {
  for (int i = 0; i < 120; ++i) queue.add_rate_limited("k" + std::to_string(i));
  clock.advance(milliseconds(5));
  int now = 0;
  while (take()) ++now;
  EXPECT_EQ(now, 100);
  clock.advance(milliseconds(995));
  while (take()) ++now;
  EXPECT_EQ(now, 110);
  clock.advance(seconds(1));
  while (take()) ++now;
  EXPECT_EQ(now, 120);
}

TEST_F(WorkQueueTest, ShutDownDrainsWhatIsQueuedAndTakesNoMore) {
  queue.add("a");
  queue.add_after("later", seconds(1));
  queue.shut_down();
  queue.add("b");
  EXPECT_EQ(queue.get(), "a");
  EXPECT_EQ(queue.get(), std::nullopt);
}

TEST_F(WorkQueueTest, AWaitingWorkerIsWokenByAddAndByShutDown) {
  std::optional<std::string> first;
  std::optional<std::string> second = "unset";
  std::thread worker([&] {
    first = queue.get();
    queue.done(*first);
    second = queue.get();
  });
  queue.add("a");
  EXPECT_TRUE(soon([&] { return queue.size() == 0; }));
  queue.shut_down();
  worker.join();
  EXPECT_EQ(first, "a");
  EXPECT_EQ(second, std::nullopt);
}

// Never two workers on one key, and the last change of every key is worked on after it was made.
TEST(WorkQueueRandom, NoKeyIsWorkedOnTwiceAtOnceAndNoUpdateIsLost) {
  const uint64_t seed = system_random()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  const Random random = seeded_random(seed);
  WorkQueue queue;
  constexpr int kKeys = 5;
  std::atomic<int> value[kKeys] = {};
  std::atomic<int> handled[kKeys] = {};
  std::atomic<int> busy[kKeys] = {};
  std::atomic<bool> overlap{false};
  std::vector<std::thread> workers;
  for (int i = 0; i < 3; ++i) {
    workers.emplace_back([&] {
      while (auto key = queue.get()) {
        const auto k = size_t(std::stoi(*key));
        if (busy[k].fetch_add(1) != 0) overlap = true;
        handled[k] = value[k].load();
        std::this_thread::yield();
        busy[k].fetch_sub(1);
        queue.done(*key);
      }
    });
  }
  for (int i = 0; i < 3000; ++i) {
    const size_t k = random() % kKeys;
    const Priority priority = random() % 2 == 0 ? Priority::kStart : Priority::kLive;
    ++value[k];
    if (random() % 4 == 0) {
      queue.add_after(std::to_string(k), std::chrono::microseconds(random() % 500), priority);
    } else {
      queue.add(std::to_string(k), priority);
    }
  }
  const auto all_handled = [&] {
    for (int k = 0; k < kKeys; ++k) {
      if (handled[k] != value[k]) return false;
    }
    return true;
  };
  EXPECT_TRUE(soon(all_handled));
  queue.shut_down();
  for (auto& worker : workers) worker.join();
  EXPECT_FALSE(overlap);
  for (int k = 0; k < kKeys; ++k) EXPECT_EQ(handled[k].load(), value[k].load()) << k;
}

TEST(Workers, RetriesErrorsRepeatsOnRequestAndSurvivesExceptions) {
  WorkQueue queue;
  std::atomic<int> flaky{0};
  std::atomic<int> broken{0};
  std::atomic<int> periodic{0};
  Workers workers("test", queue, [&](const std::string& key) -> Result<Reconciled> {
    if (key == "flaky" && ++flaky < 3) throw std::runtime_error("once more");
    if (key == "broken") {
      ++broken;
      return fail(ErrorCode::kInvalid, "never");
    }
    if (key == "periodic" && ++periodic < 3) return Reconciled{milliseconds(1)};
    return Reconciled{};
  });
  for (const char* key : {"flaky", "broken", "periodic"}) queue.add(key);
  EXPECT_TRUE(soon([&] { return flaky >= 3 && periodic >= 3 && broken >= 1; }));
  workers.stop();
  EXPECT_EQ(broken, 1) << "what is invalid does not get better by trying";
  EXPECT_EQ(workers.failed(), 3U);
}

}  // namespace
}  // namespace compilecache::kube
