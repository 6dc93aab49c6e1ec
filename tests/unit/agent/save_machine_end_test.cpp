#include <gtest/gtest.h>

#include <optional>

#include "tests/unit/agent/save_machine_driver.hpp"

// The saver's machine when the pod ends.

namespace compilecache::agent::saver {
namespace {

using std::chrono::minutes;
using Next = SaveResult::Next;

// Up to what is done about what is there.
Machine& end(Machine& m, const View& view) {
  EXPECT_EQ(m.end_pod().take(Woken{}).find<Look>()->what, Look::For::kFiles);
  return m.take(Looked{view, m.wall});
}

TEST(SaveMachine, WithNothingNewThePodEndsWithALastReport) {
  Machine m;
  end(m, m.nothing_new());
  EXPECT_EQ(m.find<Look>()->what, Look::For::kEffect);
  m.take(Looked{std::nullopt, m.wall});
  EXPECT_TRUE(m.find<ReportEffect>()->last);
  EXPECT_TRUE(m.find<ReportEffect>()->settled);
  EXPECT_EQ(m.find<ReportEffect>()->patience, kReportPatience);
  EXPECT_TRUE(m.has<End>());
}

TEST(SaveMachine, WhatIsThereIsSavedAtOnceFinishedOrNot) {
  Machine m;
  const auto save = end(m, m.unfinished(milliseconds(0))).find<Save>();
  ASSERT_TRUE(save);
  EXPECT_TRUE(save->final_save);
  EXPECT_FALSE(save->asked);
  m.answer(saved());
  EXPECT_TRUE(m.find<NoteResult>()->for_operator);
  m.tell();
  EXPECT_FALSE(m.find<ReportEffect>()->last) << "the save first";
  EXPECT_FALSE(m.has<End>());
  m.take(Looked{std::nullopt, m.wall});
  EXPECT_TRUE(m.find<ReportEffect>()->last);
  EXPECT_TRUE(m.has<End>());
}

TEST(SaveMachine, ALastSaveWaitsForNoBackOffAndNoChange) {
  for (const SaveResult& before : {unanswered(), not_saved("too_large", Next::kWhenChanged)}) {
    Machine m;
    m.save(before);
    if (m.has<Look>()) m.tell();
    EXPECT_TRUE(end(m, m.made(kQuiet)).has<Save>()) << before.reason;
  }
}

TEST(SaveMachine, LostAnswersAreTriedAgainUntilTheEndsTimeIsUsed) {
  Machine m;
  end(m, m.made(seconds(1)));
  int tries = 0;
  while (m.has<Save>()) {
    ++tries;
    m.answer(unanswered());
    if (!m.has<Pause>()) break;
    EXPECT_EQ(m.find<Pause>()->time, seconds(2));
    EXPECT_TRUE(m.find<Pause>()->to_the_end);
    m.pass(seconds(2)).take(Paused{});
  }
  EXPECT_EQ(tries, 7) << "at 0, 2, ... 12 s of 15, with a second for the last report";
  EXPECT_EQ(m.find<NoteResult>()->result.reason, "operator_unreachable");
  EXPECT_TRUE(m.find<NoteResult>()->for_operator);
}

TEST(SaveMachine, WhatOthersHeldUpUntilTheEndIsLost) {
  Machine m;
  end(m, m.made(seconds(1))).answer(busy(minutes(10)));
  const auto noted = m.find<NoteResult>();
  ASSERT_TRUE(noted);
  EXPECT_EQ(noted->result.outcome, api::Outcome::kError);
  EXPECT_EQ(noted->result.reason, "out_of_time");
  EXPECT_EQ(noted->result.message, "there is something new that is not saved: because of busy");
  EXPECT_TRUE(noted->for_operator);
}

TEST(SaveMachine, ALastSaveThatRanOutOfTimeIsNotBegunAgain) {
  Machine m;
  end(m, m.made(seconds(1))).answer(not_saved("out_of_time", Next::kRetry, milliseconds(1)));
  EXPECT_FALSE(m.has<Pause>());
  EXPECT_TRUE(m.has<NoteResult>());
}

TEST(SaveMachine, WithoutTimeForALastSaveNoneIsBegunAndItIsTold) {
  for (const milliseconds time : {milliseconds(0), kLastWords}) {
    Settings settings = usual();
    settings.at_termination = time;
    Machine m(settings);
    end(m, m.made(seconds(1)));
    EXPECT_FALSE(m.has<Save>());
    EXPECT_EQ(m.find<NoteResult>()->result.reason, "out_of_time");
    EXPECT_TRUE(m.find<NoteResult>()->for_operator);
    m.take(Looked{std::nullopt, m.wall});
    EXPECT_EQ(m.find<ReportEffect>()->patience, kLastWords);
    EXPECT_TRUE(m.has<End>());
  }
}

TEST(SaveMachine, ACacheThatCannotBeLookedAtDoesNotHoldThePodsEndUp) {
  Machine first;
  EXPECT_TRUE(first.end_pod().take(Woken{}).take(LookFailed{}).has<End>());
  Machine last;
  end(last, last.nothing_new());
  EXPECT_TRUE(last.take(LookFailed{}).has<End>());
  Machine telling;
  end(telling, telling.made(kQuiet)).answer(saved());
  EXPECT_TRUE(telling.take(LookFailed{}).has<Look>());
  EXPECT_TRUE(telling.take(LookFailed{}).has<End>());
}

TEST(SaveMachine, WhatTheEndLeavesOfItsTime) {
  struct Case {
    std::optional<milliseconds> ending;
    milliseconds patience;
    bool gives_up;
  };
  const Settings settings = usual();  // 15 s
  for (const auto& [ending, patience, gives] :
       {Case{std::nullopt, seconds(10), false}, Case{milliseconds(0), seconds(10), false},
        Case{seconds(5), seconds(9), false}, Case{seconds(10), seconds(4), false},
        Case{milliseconds(13'950), milliseconds(100), false},
        Case{seconds(14), milliseconds(100), true}, Case{minutes(1), milliseconds(100), true}}) {
    const Moment moment{{}, ending};
    EXPECT_EQ(call_patience(settings, moment), patience);
    EXPECT_EQ(gives_up(settings, moment), gives);
  }
}

}  // namespace
}  // namespace compilecache::agent::saver
