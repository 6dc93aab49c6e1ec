#include "agent/watchdog.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <future>

#include "tests/support/soon.hpp"

namespace compilecache::agent {
namespace {

using std::chrono::milliseconds;

// A thread that hangs in the kernel, as on a volume that does not answer.
[[noreturn]] void hang() {
  ::alarm(60);  // where nothing else ends it
  int ends[2];
  [[maybe_unused]] const int made = ::pipe(ends);
  char byte = 0;
  while (true) {
    [[maybe_unused]] const ssize_t got = ::read(ends[0], &byte, 1);
  }
}

TEST(WatchdogDeathTest, EndsAProcessThatHangs) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        Watchdog watchdog([] {}, [] { ::_exit(0); }, milliseconds(20));
        watchdog.arm(milliseconds(20));
        hang();
      },
      ::testing::ExitedWithCode(0), "");
}

TEST(Watchdog, WarnsFirstAndSparesWhoDisarms) {
  std::promise<void> warned;
  std::promise<void> ended;
  Watchdog watchdog([&] { warned.set_value(); }, [&] { ended.set_value(); }, milliseconds(50));
  watchdog.arm(milliseconds(1));
  compilecache::testing::soon(warned);
  watchdog.disarm();
  EXPECT_EQ(ended.get_future().wait_for(milliseconds(200)), std::future_status::timeout);
}

}  // namespace
}  // namespace compilecache::agent
