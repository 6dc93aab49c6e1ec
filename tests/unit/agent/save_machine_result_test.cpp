#include <gtest/gtest.h>

#include "tests/unit/agent/save_machine_driver.hpp"

// The saver's machine after a save: who gets its result, and when the next one is tried.

namespace compilecache::agent::saver {
namespace {

using std::chrono::minutes;
using Next = SaveResult::Next;

TEST(SaveMachine, ASaveIsNotedAndToldWithANewLook) {
  Machine m;
  m.save(saved());
  EXPECT_TRUE(m.find<NoteResult>()->for_operator);
  const auto report = m.tell().find<ReportEffect>();
  ASSERT_TRUE(report);
  EXPECT_TRUE(report->settled);
  EXPECT_FALSE(report->last);
  EXPECT_EQ(report->patience, kReportPatience);
  EXPECT_TRUE(m.has<Wait>());
}

TEST(SaveMachine, WhichResultsTheOperatorHearsOf) {
  SaveResult nothing = not_saved("nothing_to_save", Next::kWhenNew);
  nothing.outcome = api::Outcome::kDoesNotExist;
  struct Case {
    SaveResult result;
    bool while_it_runs, at_the_end;
  };
  for (const auto& [result, while_it_runs, at_the_end] :
       {Case{saved(), true, true}, Case{not_saved("too_large", Next::kWhenChanged), true, true},
        Case{not_saved("io", Next::kRetry, minutes(1)), true, true},
        // Tried again, and the operator has said so itself or does not answer.
        Case{busy(minutes(1)), false, true}, Case{unanswered(minutes(1)), false, true},
        Case{nothing, false, false}}) {
    Machine m;
    m.save(result);
    EXPECT_EQ(m.find<NoteResult>()->for_operator, while_it_runs) << result.reason;
    Machine ending;
    ending.look(ending.made(kQuiet));
    ending.end_pod().answer(result);
    EXPECT_EQ(ending.find<NoteResult>()->for_operator, at_the_end) << result.reason;
  }
}

TEST(SaveMachine, ASaveThatCannotBeToldStillCounts) {
  Machine m;
  m.save(saved());
  EXPECT_TRUE(m.take(LookFailed{m.wall}).has<Wait>());
}

// When a save is tried again, by how often it failed before.
milliseconds back_off(Machine& m) {
  const Monotonic failed = m.now;
  for (int i = 0; i < 100'000; ++i) {
    m.pass(seconds(1)).look(m.made(kQuiet));
    if (m.has<Save>()) break;
    EXPECT_TRUE(m.has<Wait>());
  }
  return std::chrono::duration_cast<milliseconds>(m.now - failed);
}

TEST(SaveMachine, LostAnswersAreTriedAgainWithPausesThatDouble) {
  Machine m;
  m.save(unanswered());
  for (const int expected : {2, 4, 8, 16, 32, 64, 64}) {
    EXPECT_EQ(back_off(m), seconds(expected));
    m.answer(unanswered());
  }
}

TEST(SaveMachine, AfterASaveThatWorksPausesBeginAnew) {
  Machine m;
  m.save(unanswered());
  for (int i = 0; i < 3; ++i) {
    (void)back_off(m);
    m.answer(unanswered());
  }
  (void)back_off(m);
  m.answer(saved()).tell();
  m.save(unanswered());
  EXPECT_EQ(back_off(m), seconds(2));
}

TEST(SaveMachine, AnotherPodsSaveIsNoFailure) {
  Machine m;
  m.save(busy());
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(back_off(m), seconds(5));
    m.answer(busy());
  }
}

TEST(SaveMachine, TheNextTryIsWaitedForNoLongerThanItTakes) {
  Machine m;
  EXPECT_EQ(m.save(busy(milliseconds(700))).waits(), milliseconds(700));
  m.pass(milliseconds(350));
  EXPECT_EQ(m.look(m.made(kQuiet)).waits(), milliseconds(350));
}

TEST(SaveMachine, WhatCannotBeSavedAsItIsWaitsForAChange) {
  Machine m;
  const View view = m.made(kQuiet);
  m.look(view).answer(not_saved("too_large", Next::kWhenChanged)).tell();
  EXPECT_FALSE(m.pass(std::chrono::hours(1)).look(view).has<Save>());
  EXPECT_TRUE(m.look(m.made(kQuiet)).has<Save>());
}

TEST(SaveMachine, ARefusalForGoodEndsSaving) {
  Machine m;
  SaveResult refused = not_saved("not_allowed", Next::kWhenChanged);
  refused.never_again = true;
  m.save(refused).tell();
  EXPECT_FALSE(m.look(m.made(kQuiet)).has<Save>());
  m.look(m.made(kQuiet), m.wall).take(Paused{}).take(RequestRead{m.wall});
  EXPECT_EQ(m.find<AnswerApp>()->result.message,
            "saving is off: the operator refused an earlier save for good: not_allowed");
}

TEST(SaveMachine, OnceIsOneSave) {
  Settings settings = usual();
  settings.once = true;
  Machine m(settings);
  m.save(unanswered());
  m.pass(seconds(2)).save(saved()).tell();
  EXPECT_FALSE(m.look(m.made(kQuiet)).has<Save>());
  m.end_pod().take(Woken{}).take(Looked{m.made(kQuiet), m.wall});
  EXPECT_FALSE(m.has<Save>()) << "nor at the end";
}

TEST(SaveMachine, PodsThatWaitLearnOnceAfterEachSaveThatThisOneCompilesOn) {
  Settings settings = usual();
  settings.awaited = true;
  Machine m(settings);
  const auto compiling = [&](const View& view) {
    m.take(Woken{}).take(Looked{view, m.wall});
    const bool told = m.find<ReportEffect>()->compiling;
    m.take(RequestRead{});
    return told;
  };
  EXPECT_FALSE(compiling(m.made(seconds(1)))) << "before its first save nobody takes it for all";
  m.save(saved()).tell();
  EXPECT_FALSE(compiling(m.nothing_new()));
  EXPECT_TRUE(compiling(m.made(seconds(1))));
  EXPECT_FALSE(compiling(m.made(seconds(1))));
  m.save(saved()).tell();
  EXPECT_TRUE(compiling({false, true, m.wall}));

  settings.awaited = false;
  m = Machine(settings);
  m.save(saved()).tell();
  EXPECT_FALSE(compiling(m.made(seconds(1))));
}

TEST(SaveMachine, ALoadThatMetNoOperatorIsReportedUntilItIsHeard) {
  Settings settings = usual();
  settings.reports_load = true;
  Machine m(settings);
  const auto tries = [&] { return m.take(Woken{}).has<ReportLoad>(); };
  ASSERT_TRUE(tries());
  EXPECT_TRUE(m.take(LoadReported{LoadReported::Told::kNothingThere}).has<Look>());
  m.take(LookFailed{m.wall});
  ASSERT_TRUE(tries()) << "the loader's note may come any time";
  m.pass(seconds(3));
  EXPECT_TRUE(m.take(LoadReported{LoadReported::Told::kNo}).has<Look>());
  m.take(LookFailed{m.wall}).pass(seconds(26));
  EXPECT_FALSE(tries()) << "half a minute after the last try began";
  m.take(LookFailed{m.wall}).pass(seconds(1));
  ASSERT_TRUE(tries());
  m.take(LoadReported{LoadReported::Told::kYes}).take(LookFailed{m.wall});
  EXPECT_FALSE(m.pass(std::chrono::hours(1)).take(Woken{}).has<ReportLoad>());
}

}  // namespace
}  // namespace compilecache::agent::saver
