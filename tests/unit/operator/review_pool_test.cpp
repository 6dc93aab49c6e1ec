#include "operator/review_pool.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <future>
#include <memory>
#include <stdexcept>
#include <thread>

#include "tests/support/soon.hpp"

namespace compilecache::controller {
namespace {

using compilecache::testing::soon;
using std::chrono::milliseconds;
using std::chrono::seconds;

// Work that lasts until it is let go.
class Held {
 public:
  ReviewPool::Work work() {
    return [its = its_] {
      its->begun.set_value();
      soon(its->go);
    };
  }
  void wait_until_begun() { soon(its_->begun); }
  void let_go() { its_->go.set_value(); }

 private:
  struct Promises {
    std::promise<void> begun, go;
  };
  // The thread's too: it may be the last to have them.
  std::shared_ptr<Promises> its_ = std::make_shared<Promises>();
};

class Pool : public ::testing::Test {
 protected:
  // Returns once a thread has done it.
  void do_ordinary() {
    const auto done = std::make_shared<std::promise<void>>();
    ASSERT_TRUE(pool_.add(false, [done] { done->set_value(); }));
    soon(*done);
  }

  FakeClock clock_;
  ReviewPool pool_{4, clock_};
};

TEST_F(Pool, LargeOnesGetHalfOfTheThreads) {
  pool_.start();
  std::array<Held, 4> large;
  for (Held& one : large) ASSERT_TRUE(pool_.add(true, one.work()));
  large[0].wait_until_begun();
  large[1].wait_until_begun();
  do_ordinary();
  large[0].let_go();
  large[2].wait_until_begun();
  do_ordinary();
  for (size_t i = 1; i < large.size(); ++i) large[i].let_go();
}

TEST_F(Pool, AsManyWaitAsWouldComeInTime) {
  for (size_t i = 0; i < ReviewPool::kMostLargeWaiting; ++i) ASSERT_TRUE(pool_.add(true, [] {}));
  EXPECT_FALSE(pool_.add(true, [] {}));
  for (size_t i = 0; i < ReviewPool::kMostWaiting; ++i) ASSERT_TRUE(pool_.add(false, [] {}));
  EXPECT_FALSE(pool_.add(false, [] {}));
  pool_.start();
  EXPECT_TRUE(soon([&] { return pool_.add(false, [] {}); }));
  EXPECT_TRUE(soon([&] { return pool_.add(true, [] {}); }));
}

TEST_F(Pool, SaysHowLongTheFirstHasWaitedAndTheOldestIsWorkedOn) {
  EXPECT_EQ(pool_.longest_wait(), milliseconds(0));
  Held one;
  ASSERT_TRUE(pool_.add(false, one.work()));
  clock_.advance(seconds(3));
  EXPECT_EQ(pool_.longest_wait(), seconds(3));
  pool_.start();
  one.wait_until_begun();
  EXPECT_EQ(pool_.longest_wait(), milliseconds(0));
  clock_.advance(seconds(5));
  EXPECT_EQ(pool_.longest_work(), seconds(5));
  one.let_go();
  EXPECT_TRUE(soon([&] { return pool_.longest_work() == milliseconds(0); }));
}

TEST_F(Pool, StopEndsWhatIsBeingDoneAndDropsWhatWaits) {
  pool_.start();
  std::atomic<size_t> ended{0};
  std::array<Held, 4> held;  // every thread has something
  for (Held& one : held) {
    ASSERT_TRUE(pool_.add(false, [&ended, work = one.work()] {
      work();
      ++ended;
    }));
    one.wait_until_begun();
  }
  std::atomic<int> done{0};
  const auto waits = std::make_shared<int>();
  ASSERT_TRUE(pool_.add(false, [&done, waits] { ++done; }));
  size_t ended_at_stop = 0;
  std::thread stopper([&] {
    pool_.stop();
    ended_at_stop = ended;
  });
  EXPECT_TRUE(soon([&] { return waits.use_count() == 1; })) << "the caller need not wait";
  EXPECT_FALSE(pool_.add(false, [&done] { ++done; }));
  for (Held& one : held) one.let_go();
  stopper.join();
  EXPECT_EQ(ended_at_stop, held.size());
  EXPECT_EQ(done, 0);
}

TEST_F(Pool, WorkThatThrowsTakesNoThreadAway) {
  pool_.start();
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(pool_.add(false, [] { throw std::runtime_error("no memory"); }));
  }
  do_ordinary();
}

}  // namespace
}  // namespace compilecache::controller
