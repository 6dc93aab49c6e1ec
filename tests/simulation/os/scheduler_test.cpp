#include "tests/simulation/os/scheduler.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

// Each test runs in a process of its own (a fork), since a program has one run.

namespace compilecache::simulation {
namespace {

using namespace std::chrono_literals;

// What `body` returns, from a run under `seed` in another process.
std::string in_a_run(uint64_t seed, const std::function<std::string()>& body) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    run_scheduled({.seed = seed}, [&] {
      const std::string text = body();
      (void)!::write(ends[1], text.data(), text.size());
      ::_exit(0);
    });
  }
  ::close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t got = 0; (got = ::read(ends[0], buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<size_t>(got));
  }
  ::close(ends[0]);
  return text;
}

TEST(Scheduler, SleepingTakesNoTimeAndTheClockShowsIt) {
  EXPECT_EQ(
      in_a_run(1,
               [] {
                 const auto before = std::chrono::steady_clock::now();
                 const auto day = std::chrono::system_clock::now();
                 std::this_thread::sleep_for(30h * 24);
                 const auto passed = std::chrono::steady_clock::now() - before;
                 const bool same = std::chrono::system_clock::now() - day == passed;
                 return std::to_string(std::chrono::floor<std::chrono::hours>(passed).count()) +
                        (same ? " both" : " one");
               }),
      "720 both");
}

// Every thread's turn, as a text.
std::string turns() {
  std::string order;
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (char name = 'a'; name < 'e'; ++name) {
    threads.emplace_back([&, name] {
      for (int i = 0; i < 20; ++i) {
        const std::lock_guard lock(mutex);
        order += name;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  return order + std::to_string(statistics().history);
}

TEST(Scheduler, TheSameSeedIsTheSameHistoryAndAnotherIsAnother) {
  const std::string first = in_a_run(7, turns);
  EXPECT_EQ(in_a_run(7, turns), first);
  EXPECT_NE(in_a_run(8, turns), first);
}

TEST(Scheduler, AWaitEndsWithItsSignalOrItsTime) {
  EXPECT_EQ(in_a_run(3,
                     [] {
                       std::mutex mutex;
                       std::condition_variable changed;
                       bool set = false;
                       std::thread setter([&] {
                         std::this_thread::sleep_for(5s);
                         const std::lock_guard lock(mutex);
                         set = true;
                         changed.notify_all();
                       });
                       std::unique_lock lock(mutex);
                       const bool early = changed.wait_for(lock, 4s, [&] { return set; });
                       const bool late = changed.wait_for(lock, 4s, [&] { return set; });
                       const auto at = now_ns() / 1'000'000'000;
                       lock.unlock();
                       setter.join();
                       return std::to_string(early) + std::to_string(late) + " at " +
                              std::to_string(at);
                     }),
            "01 at 5");
}

TEST(Scheduler, FuturesAndExceptionsStayWithTheirThread) {
  EXPECT_EQ(in_a_run(4,
                     [] {
                       const auto thrower = [](int number) {
                         try {
                           std::this_thread::sleep_for(1s);
                           throw std::to_string(number);
                         } catch (const std::string& text) {
                           std::this_thread::sleep_for(1s);
                           return text;
                         }
                       };
                       auto one = std::async(std::launch::async, thrower, 1);
                       auto two = std::async(std::launch::async, thrower, 2);
                       return one.get() + two.get();
                     }),
            "12");
}

TEST(Scheduler, NothingOfAKilledProcessRunsAgain) {
  EXPECT_EQ(in_a_run(5,
                     [] {
                       int ticks = 0;
                       const ProcessId pod = start_process("pod", [&ticks] {
                         std::thread other([&ticks] {
                           for (;; ++ticks) std::this_thread::sleep_for(1min);
                         });
                         other.join();
                       });
                       sleep_for_ns(10LL * 60 * 1'000'000'000 + 1);
                       kill_process(pod);
                       const int before = ticks;
                       sleep_for_ns(3600LL * 1'000'000'000);
                       return std::to_string(before) + " " + std::to_string(ticks) + " " +
                              std::to_string(is_alive(pod));
                     }),
            "10 10 0");
}

TEST(Scheduler, ACallIntoTheWorldIsCarriedOutAlthoughItsCallerIsKilled) {
  EXPECT_EQ(in_a_run(6,
                     [] {
                       std::string did;
                       const ProcessId pod = start_process("pod", [&did] {
                         {
                           const Syscall call;
                           std::this_thread::sleep_for(1s);
                           did += "written";
                         }
                         did += " and more";
                       });
                       sleep_for_ns(1000);
                       kill_process(pod);
                       sleep_for_ns(10LL * 1'000'000'000);
                       return did;
                     }),
            "written");
}

TEST(Scheduler, AProcessThatEndsItselfEndsAlone) {
  EXPECT_EQ(in_a_run(9,
                     [] {
                       const ProcessId pod = start_process("pod", [] { ::_exit(1); });
                       wait_for_process(pod);
                       return std::string(is_alive(pod) ? "alive" : "gone");
                     }),
            "gone");
}

TEST(Scheduler, AFrozenProcessStandsStillUntilItIsThawed) {
  EXPECT_EQ(in_a_run(10,
                     [] {
                       int ticks = 0;
                       const ProcessId pod = start_process("pod", [&ticks] {
                         for (;; ++ticks) std::this_thread::sleep_for(1s);
                       });
                       std::this_thread::sleep_for(10500ms);
                       freeze_process(pod);
                       std::this_thread::sleep_for(1h);
                       std::string seen = std::to_string(ticks);
                       thaw_process(pod);
                       std::this_thread::sleep_for(5s);
                       seen += " " + std::to_string(ticks);
                       kill_process(pod);
                       return seen;
                     }),
            "10 15");
}

TEST(Scheduler, AFrozenProcessFinishesItsCallIntoTheWorldAndCanBeKilled) {
  EXPECT_EQ(in_a_run(11,
                     [] {
                       std::string did;
                       const ProcessId pod = start_process("pod", [&did] {
                         {
                           const Syscall call;
                           std::this_thread::sleep_for(1s);
                           did += "written";
                         }
                         did += " and more";
                       });
                       sleep_for_ns(1000);
                       freeze_process(pod);
                       std::this_thread::sleep_for(1h);
                       kill_process(pod);
                       thaw_process(pod);
                       std::this_thread::sleep_for(1h);
                       return did;
                     }),
            "written");
}

TEST(Scheduler, AProcessSeesTheTimeOfDayOfItsOwnClock) {
  EXPECT_EQ(in_a_run(12,
                     [] {
                       const auto seconds = [] {
                         return std::chrono::floor<std::chrono::seconds>(
                             std::chrono::system_clock::now());
                       };
                       std::string seen;
                       const auto start = seconds();
                       const ProcessId pod = start_process(
                           "pod", [&] { seen = std::to_string((seconds() - start).count()); });
                       set_clock_offset(pod, -400 * kSecond);
                       wait_for_process(pod);
                       return seen + " " + std::to_string((seconds() - start).count());
                     }),
            "-400 0");
}

TEST(Scheduler, WaitingForAProcessEndsAtItsTime) {
  EXPECT_EQ(in_a_run(13,
                     [] {
                       const ProcessId pod =
                           start_process("pod", [] { std::this_thread::sleep_for(1h); });
                       const bool early = wait_for_process(pod, now_ns() + 60 * kSecond);
                       const bool late = wait_for_process(pod, now_ns() + 2 * kHour);
                       return std::string(early ? "ended" : "runs") + (late ? " ended" : " runs");
                     }),
            "runs ended");
}

TEST(Chance, OneActorsDrawsDoNotChangeAnothers) {
  const auto draws = [](bool other_draws_too) {
    return in_a_run(2, [other_draws_too] {
      Chance mine("tenant 1");
      Chance others("tenant 2");
      std::string text;
      for (int i = 0; i < 5; ++i) {
        if (other_draws_too) others.next();
        text += std::to_string(mine.below(1000)) + " ";
      }
      return text;
    });
  };
  EXPECT_EQ(draws(false), draws(true));
}

}  // namespace
}  // namespace compilecache::simulation
