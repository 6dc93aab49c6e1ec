#include "archive/layer/buffer_pool.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace compilecache::archive {
namespace {

constexpr uint64_t kLimit = 1 << 20;

TEST(BufferPool, WhatLiesIdleCountsToo) {
  Activity activity;
  BufferPool pool(kLimit, activity);
  std::vector<BufferPool::Shared> small;
  while (pool.fits(10'000)) small.push_back(pool.take(10'000));
  small.clear();  // idle now
  ASSERT_TRUE(pool.fits(900'000));
  const auto large = pool.take(900'000);
  EXPECT_LE(pool.held_bytes(), kLimit);
}

TEST(BufferPool, ABufferThatIsUsedAgainCountsAsWhatItIs) {
  Activity activity;
  BufferPool pool(kLimit, activity);
  std::vector<BufferPool::Shared> buffers;
  for (int i = 0; i < 10; ++i) buffers.push_back(pool.take(100'000));
  buffers.clear();
  while (pool.fits(30'000)) buffers.push_back(pool.take(30'000));
  uint64_t capacity = 0;
  for (const auto& buffer : buffers) capacity += buffer->capacity();
  EXPECT_LE(capacity, kLimit);
  EXPECT_LE(pool.held_bytes(), kLimit);
}

// The bound is kept in whatever order buffers are taken and returned.
TEST(BufferPool, KeepsItsBoundInAnyOrder) {
  Activity activity;
  for (unsigned seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(seed);
    BufferPool pool(kLimit, activity);
    std::mt19937 random(seed);
    std::vector<BufferPool::Shared> taken;
    for (int i = 0; i < 2'000; ++i) {
      const size_t size = 1 + random() % (1U << (random() % 20));
      if (pool.fits(size) && random() % 3 != 0) {
        taken.push_back(pool.take(size));
      } else if (!taken.empty()) {
        std::swap(taken.back(), taken[random() % taken.size()]);
        taken.pop_back();
      }
      ASSERT_LE(pool.held_bytes(), kLimit);
    }
  }
}

TEST(BufferPool, OneThatIsLargerThanTheBoundPassesAlone) {
  Activity activity;
  BufferPool pool(kLimit, activity);
  ASSERT_TRUE(pool.fits(3 * kLimit));
  auto large = pool.take(3 * kLimit);
  EXPECT_FALSE(pool.fits(1));
  large.reset();
  EXPECT_EQ(pool.held_bytes(), 0U) << "it is not kept";
}

}  // namespace
}  // namespace compilecache::archive
