#include "tests/support/process.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <future>

namespace compilecache::testing {
namespace {

// A program that another thread starts meanwhile holds no end of this one's pipes open.
TEST(RunProcess, WaitsForItsOwnProgramAlone) {
  const std::string stay = ::testing::TempDir() + "process_test.stay";
  const auto other = [&stay] {
    return run_process({"sh", "-c", "while [ -e \"$0\" ]; do sleep 0.1; done", stay});
  };
  for (int round = 0; round < 3; ++round) {
    std::ofstream(stay) << "\n";
    auto one = std::async(std::launch::async, other);
    auto two = std::async(std::launch::async, other);
    for (int i = 0; i < 20 && !HasFailure(); ++i) {
      const ProcessResult result = run_process({"cat"}, "text", std::chrono::seconds(20));
      EXPECT_EQ(result.exit_code, 0) << result.err;
      EXPECT_EQ(result.out, "text");
    }
    std::filesystem::remove(stay);
    EXPECT_EQ(one.get().exit_code, 0);
    EXPECT_EQ(two.get().exit_code, 0);
  }
}

TEST(RunProcess, GivesInputAndTakesWhatIsWritten) {
  const ProcessResult result = run_process({"sh", "-c", "cat; echo no >&2; exit 3"}, "in");
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.out, "in");
  EXPECT_EQ(result.err, "no\n");
}

}  // namespace
}  // namespace compilecache::testing
