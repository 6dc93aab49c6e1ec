#include "cli/cluster/undo.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <string>

namespace compilecache::cli {
namespace {

void say(const char* text) { EXPECT_GT(::write(STDERR_FILENO, text, std::string(text).size()), 0); }

// In a process of its own, as signals are the process's.
void end_with(int signal) {
  undo_at_signals();
  const Undo first([] { say("first "); });
  auto over = std::make_unique<Undo>([] { say("what is over "); });
  const Undo last([] { say("last "); });
  over.reset();
  ::kill(::getpid(), signal);
  ::pause();
}

TEST(UndoDeathTest, ASignalTakesAwayWhatIsThereTheNewestFirst) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  for (const int signal : {SIGINT, SIGTERM, SIGHUP})
    EXPECT_EXIT(end_with(signal), ::testing::ExitedWithCode(128 + signal), "^last first $");
}

TEST(UndoDeathTest, WhatHasEndedWellIsLeftAlone) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        undo_at_signals();
        {
          const Undo undo([] { say("undone"); });
        }
        ::_exit(3);
      },
      ::testing::ExitedWithCode(3), "^$");
}

}  // namespace
}  // namespace compilecache::cli
