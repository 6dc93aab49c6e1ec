#include "tests/simulation/faults/shrink.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace compilecache::simulation {
namespace {

std::vector<Fault> some_faults(int count) {
  std::vector<Fault> faults;
  for (int i = 0; i < count; ++i) faults.push_back({i, "api-down", i});
  return faults;
}

bool has(const std::vector<Fault>& faults, int64_t at) {
  return std::any_of(faults.begin(), faults.end(),
                     [at](const Fault& fault) { return fault.at_s == at; });
}

TEST(Shrink, KeepsOnlyTheFaultsThatAreNeeded) {
  const auto fails = [](const auto& faults) { return has(faults, 7) && has(faults, 60); };
  const std::vector<Fault> expected = {{7, "api-down", 7}, {60, "api-down", 60}};
  EXPECT_EQ(shrink(some_faults(100), fails, 1000), expected);
}

TEST(Shrink, AFailureWithoutFaultsNeedsNone) {
  EXPECT_TRUE(shrink(
                  some_faults(100), [](const auto&) { return true; }, 1000)
                  .empty());
}

TEST(Shrink, AnswersAFailingListAfterItsLastTry) {
  int runs = 0;
  const auto fails = [&](const auto& faults) {
    ++runs;
    return has(faults, 50);
  };
  const auto found = shrink(some_faults(100), fails, 5);
  EXPECT_LE(runs, 5);
  EXPECT_TRUE(has(found, 50));
}

TEST(Faults, AreReadAsTheyAreWritten) {
  const std::vector<Fault> faults = {{60, "api-down", 30}, {90, "clock-jumps", -5}};
  EXPECT_EQ(to_text(faults), "60:api-down:30,90:clock-jumps:-5");
  const auto read = parse_faults(to_text(faults));
  ASSERT_TRUE(read);
  EXPECT_EQ(*read, faults);
  EXPECT_EQ(parse_faults("1:nothing:2").error().message, "no such kind of fault: nothing");
  EXPECT_FALSE(parse_faults("1:api-down"));
  EXPECT_FALSE(parse_faults("x:api-down:1"));
}

}  // namespace
}  // namespace compilecache::simulation
