#include "base/cutoff.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace compilecache {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

Cutoff::Time in(milliseconds time) { return std::chrono::steady_clock::now() + time; }

TEST(Cutoff, ThereIsNoneAtFirst) {
  const Cutoff cutoff;
  EXPECT_FALSE(cutoff.passed());
  EXPECT_TRUE(cutoff.sleep(milliseconds(1)));
}

TEST(Cutoff, ItEndsWhatSleeps) {
  Cutoff cutoff;
  cutoff.set(in(hours(1)));
  std::thread ending([&] { cutoff.set(in(milliseconds(5))); });
  EXPECT_FALSE(cutoff.sleep(hours(1)));
  ending.join();
  EXPECT_TRUE(cutoff.passed());
  EXPECT_FALSE(cutoff.sleep(hours(1))) << "and what comes after";
}

}  // namespace
}  // namespace compilecache
