#include "agent/termination.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <future>

#include "tests/support/soon.hpp"

namespace compilecache::agent {
namespace {

TEST(TerminationDeathTest, SigtermWakesASleeperAndRunsTheHandler) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        Termination termination;
        std::promise<void> handled;
        termination.on_request([&] { handled.set_value(); });
        ::kill(::getpid(), SIGTERM);
        const bool slept = termination.sleep(std::chrono::minutes(1));
        compilecache::testing::soon(handled);
        ::_exit(!slept && termination.requested() ? 7 : 1);
      },
      ::testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace compilecache::agent
