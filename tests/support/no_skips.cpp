// With CC_NO_SKIPS=1 in the environment a skipped test fails, with its reason. CI has everything
// that tests need, so a test that does not run must not look like one that passes. tests/run.sh
// sets it when it runs all. left_out.hpp is for tests left out by choice.

#include <gtest/gtest.h>

#include <cstdlib>

namespace {

class NoSkips : public ::testing::EmptyTestEventListener {
  void OnTestEnd(const ::testing::TestInfo& test) override {
    if (!test.result()->Skipped()) return;
    std::string why;
    for (int i = 0; i < test.result()->total_part_count(); ++i) {
      why += test.result()->GetTestPartResult(i).message();
    }
    ADD_FAILURE() << "skipped though CC_NO_SKIPS is set: " << why;
  }
};

const bool kInstalled = [] {
  const char* const set = std::getenv("CC_NO_SKIPS");
  if (set == nullptr || *set == '\0') return false;
  ::testing::UnitTest::GetInstance()->listeners().Append(new NoSkips);
  return true;
}();

}  // namespace
