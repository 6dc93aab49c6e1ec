// With CC_NO_SKIPS=1 in the environment a test that is skipped fails, with its reason: where all
// that tests need is there, as in CI, what does not run must not look like what holds. tests/run.sh
// sets it when it runs all. What is left out by choice is left_out.hpp's.

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
