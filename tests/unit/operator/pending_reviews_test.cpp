#include "operator/pending_reviews.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <string>

#include "tests/support/soon.hpp"

namespace compilecache::controller {
namespace {

using compilecache::testing::soon;
using std::chrono::seconds;

class PendingReviewsTest : public ::testing::Test {
 protected:
  void SetUp() override { reviews_.start(); }

  bool hold(const std::string& cache, seconds longest = seconds(1)) {
    return reviews_.hold(cache, clock_.monotonic() + longest, [this] { ++resumed_; });
  }
  void expect_resumed(int count) {
    EXPECT_TRUE(soon([&] { return resumed_ == count; })) << resumed_;
  }

  FakeClock clock_;
  std::atomic<bool> decided_{false};
  std::atomic<int> resumed_{0};
  PendingReviews reviews_{[this](const std::string&) { return decided_.load(); }, clock_};
};

TEST_F(PendingReviewsTest, ResumesWhenTheCompileCacheIsThere) {
  ASSERT_TRUE(hold("ml/llama"));
  EXPECT_EQ(resumed_, 0);
  decided_ = true;
  expect_resumed(1);
  decided_ = false;
  EXPECT_TRUE(hold("ml/llama")) << "the wait had a reason";
}

TEST_F(PendingReviewsTest, ResumesWhenTheTimeIsUpAndWaitsForThatNameNoMore) {
  ASSERT_TRUE(hold("ml/lama"));
  clock_.advance(seconds(1));
  expect_resumed(1);
  EXPECT_FALSE(hold("ml/lama"));
  EXPECT_TRUE(hold("ml/llama")) << "another name";
  clock_.advance(PendingReviews::kPause);
  expect_resumed(2);
  EXPECT_TRUE(hold("ml/lama"));
}

TEST_F(PendingReviewsTest, HoldsOneForEachNameAndAFewInAll) {
  ASSERT_TRUE(hold("0/llama"));
  EXPECT_FALSE(hold("0/llama")) << "one pod of a burst waits";
  for (size_t i = 1; i < PendingReviews::kMost; ++i)
    ASSERT_TRUE(hold(std::to_string(i) + "/llama"));
  EXPECT_FALSE(hold("more/llama"));
  decided_ = true;
  expect_resumed(PendingReviews::kMost);
}

TEST_F(PendingReviewsTest, OneNamespaceTakesNoPlaceFromOthers) {
  for (size_t i = 0; i < PendingReviews::kMostOfANamespace; ++i)
    ASSERT_TRUE(hold("hostile/" + std::to_string(i)));
  EXPECT_FALSE(hold("hostile/more"));
  EXPECT_TRUE(hold("ml/llama"));
  for (size_t i = PendingReviews::kMostOfANamespace; i < PendingReviews::kMostPausedOfANamespace;
       ++i) {
    clock_.advance(seconds(1));
    ASSERT_TRUE(soon([&] { return hold("hostile/" + std::to_string(i)); })) << i;
  }
  clock_.advance(seconds(1));
  expect_resumed(PendingReviews::kMostPausedOfANamespace + 1);
  EXPECT_FALSE(hold("hostile/yet-another")) << "too many names that never came";
  EXPECT_TRUE(hold("ml/other"));
}

TEST_F(PendingReviewsTest, NothingIsHeldAfterItsTimeOrAfterStop) {
  EXPECT_FALSE(hold("ml/llama", seconds(0)));
  ASSERT_TRUE(hold("ml/llama"));
  reviews_.stop();
  EXPECT_EQ(resumed_, 1) << "what was held is resumed";
  EXPECT_FALSE(hold("ml/other"));
}

}  // namespace
}  // namespace compilecache::controller
