// With CC_NO_SKIPS=1 in the environment a test that is skipped fails, with its reason: where all
// that tests need is there, as in CI, what does not run must not look like what holds.

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
  if (std::getenv("CC_NO_SKIPS") == nullptr) return false;
  ::testing::UnitTest::GetInstance()->listeners().Append(new NoSkips);
  return true;
}();

}  // namespace
