#include "archive/layer/ratio.hpp"

#include <gmock/gmock.h>

// Tests which files have to be left out so that a layer keeps the ratio.

namespace compilecache::archive::test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint32_t kMiB = 1 << 20;
constexpr uint64_t kRatio = 2000;

TEST(Ratio, WhatIsInProportionStays) {
  // Zeros, but no more than are always accepted; and many zeros beside enough incompressible bytes.
  EXPECT_THAT(beyond_ratio({{100, 64 * kMiB}}, {{0, 64 * kMiB}}, kRatio), IsEmpty());
  EXPECT_THAT(beyond_ratio({{100, 200 * kMiB}, {kMiB, kMiB}}, {{0, 200 * kMiB}, {200 * kMiB, kMiB}},
                           kRatio),
              IsEmpty());
}

TEST(Ratio, OnlyWhatIsOutOfProportionGoes) {
  const std::vector<Frame> frames{{1000, 8 * kMiB}, {500, 190 * kMiB}};
  const std::vector<Placed> placed{{0, 4 * kMiB}, {4 * kMiB, 4 * kMiB}, {8 * kMiB, 190 * kMiB}};
  EXPECT_THAT(beyond_ratio(frames, placed, kRatio), ElementsAre(2U));
}

TEST(Ratio, TheWorstGoFirstAndNoMoreThanNeeded) {
  const std::vector<Frame> frames{{200, 40 * kMiB}, {300, 90 * kMiB}, {200, 50 * kMiB}};
  const std::vector<Placed> placed{{0, 40 * kMiB}, {40 * kMiB, 90 * kMiB}, {130 * kMiB, 50 * kMiB}};
  EXPECT_THAT(beyond_ratio(frames, placed, kRatio), ElementsAre(1U, 2U))
      << "40 MiB are always taken";
}

TEST(Ratio, AFileOverSeveralFramesIsOneFile) {
  const std::vector<Frame> frames{{30'000, 16 * kMiB}, {100, 16 * kMiB}, {100, 16 * kMiB},
                                  {100, 16 * kMiB},    {100, 16 * kMiB}, {5, kMiB}};
  const std::vector<Placed> placed{{512, 15 * kMiB}, {15 * kMiB + 1024, 66 * kMiB - 1024}};
  EXPECT_THAT(beyond_ratio(frames, placed, kRatio), ElementsAre(1U));
}

TEST(Ratio, WhereNoFileIsToBlameNoneGoes) {
  EXPECT_THAT(beyond_ratio({{100, 200 * kMiB}}, {}, kRatio), IsEmpty());
}

}  // namespace
}  // namespace compilecache::archive::test
