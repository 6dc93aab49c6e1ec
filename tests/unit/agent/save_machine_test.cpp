#include "agent/save/save_machine.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <utility>

#include "base/random.hpp"

namespace compilecache::agent::saver {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using Next = SaveResult::Next;

constexpr milliseconds kQuiet{30'000};

Settings usual() {
  Settings settings;
  settings.quiet_period = kQuiet;
  settings.at_termination = seconds(15);
  return settings;
}

SaveResult saved() {
  SaveResult result;
  result.outcome = api::Outcome::kSuccess;
  return result;
}
SaveResult not_saved(const std::string& reason, Next next, milliseconds retry_after = {}) {
  SaveResult result;
  result.outcome = reason == "busy" ? api::Outcome::kSkipped : api::Outcome::kError;
  result.reason = reason;
  result.message = "because of " + reason;
  result.next = next;
  result.retry_after = retry_after;
  return result;
}
SaveResult busy(milliseconds retry_after = seconds(5)) {
  return not_saved("busy", Next::kRetry, retry_after);
}
SaveResult unanswered(milliseconds retry_after = seconds(2)) {
  return not_saved("operator_unreachable", Next::kRetry, retry_after);
}

bool is_answered(const Action& action) {
  return std::holds_alternative<ReportLoad>(action) || std::holds_alternative<Look>(action) ||
         std::holds_alternative<ReadRequest>(action) || std::holds_alternative<Save>(action) ||
         std::holds_alternative<Pause>(action) || std::holds_alternative<Wait>(action);
}

// Drives the machine by hand; time stands still unless a test moves it.
struct Machine {
  explicit Machine(Settings with = usual(), const SaverState& before = {})
      : settings(std::move(with)), state(begin(settings, before)) {}

  Settings settings;
  State state;
  Monotonic now{std::chrono::hours(1)};
  WallTime wall{std::chrono::hours(24 * 365 * 50)};
  std::optional<Monotonic> ends;  // since when
  std::vector<Action> actions;

  [[nodiscard]] Moment moment() const {
    if (!ends) return {now, std::nullopt};
    return {now, std::chrono::duration_cast<milliseconds>(now - *ends)};
  }
  Machine& take(const Input& input) {
    Step next = step(settings, state, input, moment());
    state = std::move(next.state);
    actions = std::move(next.actions);
    EXPECT_FALSE(actions.empty()) << "the driver would have nothing to come back with";
    for (size_t i = 0; i < actions.size(); ++i) {
      const bool last = i + 1 == actions.size();
      const bool ended = std::holds_alternative<End>(actions[i]);
      EXPECT_EQ(is_answered(actions[i]) || ended, last) << "action " << actions[i].index();
    }
    return *this;
  }
  template <typename T>
  [[nodiscard]] std::optional<T> find() const {
    for (const Action& action : actions) {
      if (const T* found = std::get_if<T>(&action)) return *found;
    }
    return std::nullopt;
  }
  template <typename T>
  [[nodiscard]] bool has() const {
    return find<T>().has_value();
  }

  Machine& pass(Duration time) {
    now += time;
    wall += std::chrono::duration_cast<WallTime::duration>(time);
    return *this;
  }
  Machine& end_pod() {
    ends = now;
    return *this;
  }
  // Something new, made so long ago.
  [[nodiscard]] View made(milliseconds ago) const { return {true, false, wall - ago}; }
  [[nodiscard]] View unfinished(milliseconds ago) const { return {true, true, wall - ago}; }
  [[nodiscard]] View nothing_new() const { return {false, false, wall - std::chrono::hours(1)}; }

  // From one wait to the decision after the next look.
  Machine& look(const std::optional<View>& view, const std::optional<WallTime>& asked = {}) {
    take(Woken{}).take(Looked{view, wall});
    return take(RequestRead{asked});
  }
  Machine& answer(const SaveResult& result, int64_t saves) {
    return take(Saved{result, saves, wall});
  }
  Machine& answer(const SaveResult& result) {
    return answer(result, state.saves + (result.outcome == api::Outcome::kSuccess ? 1 : 0));
  }
  // A save that is due, and what became of it.
  Machine& save(const SaveResult& result) {
    look(made(settings.quiet_period));
    EXPECT_TRUE(has<Save>());
    return answer(result);
  }
  // What follows a save that is told.
  Machine& tell() {
    EXPECT_EQ(find<Look>().value_or(Look{}).what, Look::For::kEffect);
    return take(Looked{std::nullopt, wall});
  }
  [[nodiscard]] milliseconds waits() const {
    return find<Wait>().value_or(Wait{milliseconds(-1)}).time;
  }
};

// --- while the pod runs ---------------------------------------------------------------------

TEST(SaveMachine, LooksTellsReadsTheRequestAndWaits) {
  Machine m;
  EXPECT_EQ(m.take(Woken{}).find<Look>()->what, Look::For::kAll);
  m.take(Looked{m.nothing_new(), m.wall});
  EXPECT_TRUE(m.has<ReportEffect>());
  EXPECT_TRUE(m.has<ReadRequest>());
  EXPECT_TRUE(m.take(RequestRead{}).has<Wait>());
}

TEST(SaveMachine, OnceAllIsSeenOnlyChangesAreLookedForUntilSomethingIsUnfinishedOrSaved) {
  Machine m;
  m.look(m.nothing_new());
  EXPECT_EQ(m.take(Woken{}).find<Look>()->what, Look::For::kChanges);
  m.take(Looked{m.unfinished(seconds(1)), m.wall}).take(RequestRead{});
  EXPECT_EQ(m.take(Woken{}).find<Look>()->what, Look::For::kAll) << "what is unfinished ages";
  m.take(Looked{m.made(kQuiet), m.wall}).take(RequestRead{}).answer(saved()).tell();
  EXPECT_EQ(m.take(Woken{}).find<Look>()->what, Look::For::kAll) << "it holds other files now";
}

TEST(SaveMachine, WhatIsNewIsSavedWhenItHasBeenStill) {
  struct Case {
    milliseconds ago;
    bool save;
  };
  for (const auto& [ago, save] : {Case{milliseconds(0), false}, Case{milliseconds(29'999), false},
                                  Case{kQuiet, true}, Case{std::chrono::hours(1), true},
                                  // The clock was set back.
                                  Case{-kQuiet, false}, Case{milliseconds(-30'001), true}}) {
    Machine m;
    m.look(m.made(ago));
    EXPECT_EQ(m.has<Save>(), save) << ago.count();
    EXPECT_EQ(m.find<Explain>()->still, save);
  }
  Machine m;
  EXPECT_FALSE(m.look(m.nothing_new()).has<Save>());
}

TEST(SaveMachine, HowLongItHasBeenStillIsReckonedFromTheLastLookThatFoundNothingElse) {
  Machine m;
  m.look(m.made(seconds(0)));
  m.pass(kQuiet);
  EXPECT_TRUE(m.look(std::nullopt).has<Save>());
}

TEST(SaveMachine, ASaveWhileThePodRunsIsNeitherAskedForNorFinal) {
  Machine m;
  const auto save = m.look(m.made(kQuiet)).find<Save>();
  ASSERT_TRUE(save);
  EXPECT_FALSE(save->asked);
  EXPECT_FALSE(save->final_save);
  EXPECT_EQ(save->notices_within, seconds(15) + kReportPatience);
}

TEST(SaveMachine, UntilThisPodHasSavedTheFirstQuietPeriodCounts) {
  Settings settings = usual();
  settings.first_quiet_period = seconds(2);
  Machine m(settings);
  EXPECT_EQ(m.take(Woken{}).find<Look>()->quiet_period, seconds(2));
  m.take(Looked{m.made(seconds(2)), m.wall}).take(RequestRead{});
  ASSERT_TRUE(m.has<Save>());
  EXPECT_EQ(m.find<Save>()->notices_within, seconds(15) + kReportPatience)
      << "what follows this save is noticed by the usual period";
  m.answer(saved()).tell();

  EXPECT_FALSE(m.look(m.made(seconds(29))).has<Save>());
  EXPECT_TRUE(m.look(m.made(kQuiet)).has<Save>());
}

TEST(SaveMachine, ASaveThatFailedIsNoFirstSave) {
  Settings settings = usual();
  settings.first_quiet_period = seconds(2);
  Machine m(settings);
  m.look(m.made(seconds(2))).answer(unanswered());
  EXPECT_TRUE(m.pass(seconds(2)).look(m.made(seconds(4))).has<Save>());
}

TEST(SaveMachine, StartedAgainItKnowsThatThisPodHasSaved) {
  Settings settings = usual();
  settings.first_quiet_period = seconds(2);
  Machine m(settings, SaverState{.saves = 1});
  EXPECT_FALSE(m.look(m.made(seconds(2))).has<Save>());
}

TEST(SaveMachine, WhatIsUnfinishedOrNeverStillIsSavedAfterTwentyQuietPeriods) {
  for (const bool unfinished : {false, true}) {
    Machine m;
    const auto view = [&] {
      return unfinished ? m.unfinished(std::chrono::hours(1)) : m.made(seconds(1));
    };
    m.look(view());
    m.pass(kQuiet * 20 - milliseconds(1));
    EXPECT_FALSE(m.look(view()).has<Save>());
    m.pass(milliseconds(1));
    EXPECT_TRUE(m.look(view()).has<Save>());
  }
}

TEST(SaveMachine, TheTwentyQuietPeriodsBeginAnewWithEachSaveAndWhereNothingIsNew) {
  Machine m;
  m.look(m.made(seconds(1)));
  m.pass(kQuiet * 20).look(m.made(seconds(1))).answer(saved()).tell();
  EXPECT_FALSE(m.pass(kQuiet * 10).look(m.made(seconds(1))).has<Save>());
  EXPECT_FALSE(m.pass(kQuiet * 19).look(m.nothing_new()).has<Save>());
  EXPECT_FALSE(m.pass(kQuiet).look(m.made(seconds(1))).has<Save>());
}

TEST(SaveMachine, PausesDoubleFromASecondToHalfAQuietPeriodWhileNothingHappens) {
  Machine m;
  m.look(m.nothing_new());
  for (const int expected : {2, 4, 8, 15, 15}) {
    EXPECT_EQ(m.look(std::nullopt).waits(), seconds(expected));
  }
  EXPECT_EQ(m.look({{false, false, m.wall}}).waits(), seconds(1)) << "the app does something";
}

TEST(SaveMachine, PausesFitTheQuietPeriodAndWhatALookCosts) {
  struct Case {
    milliseconds quiet, took, longest;
  };
  for (const auto& [quiet, took, longest] :
       {Case{seconds(30), {}, seconds(15)}, Case{seconds(10), {}, seconds(5)},
        Case{minutes(10), {}, seconds(15)}, Case{milliseconds(20), {}, kShortestPause},
        Case{seconds(30), milliseconds(14), seconds(15)},
        Case{seconds(30), milliseconds(40), seconds(40)},
        Case{seconds(30), seconds(2), seconds(60)}}) {
    Settings settings = usual();
    settings.quiet_period = quiet;
    Machine m(settings);
    for (int i = 0; i < 20; ++i) {
      m.take(Woken{}).take(Looked{m.nothing_new(), m.wall, took}).take(RequestRead{});
    }
    EXPECT_EQ(m.waits(), longest) << quiet.count() << " ms, a look takes " << took.count();
  }
}

TEST(SaveMachine, WhatIsToBeSavedIsLookedAtWhenItsQuietPeriodEnds) {
  Machine m;
  m.look(m.made(seconds(1)));
  for (int i = 0; i < 5; ++i) m.look(std::nullopt);
  EXPECT_EQ(m.look(m.made(kQuiet - milliseconds(300))).waits(), milliseconds(300));
  EXPECT_EQ(m.look(m.made(kQuiet - milliseconds(30))).waits(), kShortestPause);
}

TEST(SaveMachine, ACacheThatCannotBeLookedAtIsTriedAgain) {
  Machine m;
  EXPECT_TRUE(m.take(Woken{}).take(LookFailed{m.wall}).has<Wait>());
  EXPECT_TRUE(m.look(m.made(kQuiet)).has<Save>());
}

TEST(SaveMachine, AnErrorThatNobodyExpectedCostsTheLongestPauseAndNoMore) {
  Machine m;
  m.look(m.made(kQuiet));
  ASSERT_TRUE(m.has<Save>());
  EXPECT_EQ(m.take(Broke{}).waits(), kLongestPause);
  EXPECT_TRUE(m.look(m.made(kQuiet)).has<Save>());
}

// --- after a save ---------------------------------------------------------------------------

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

// --- the app asks ---------------------------------------------------------------------------

TEST(SaveMachine, TheAppIsServedWithoutSilenceAndAnsweredBeforeTheOperatorIsTold) {
  Machine m;
  m.look(m.unfinished(milliseconds(0)), m.wall);
  EXPECT_FALSE(m.has<Save>());
  EXPECT_EQ(m.find<Pause>()->time, kRequestSettles);
  EXPECT_TRUE(m.take(Paused{}).has<ReadRequest>());
  const WallTime again = m.wall + milliseconds(5);
  const auto save = m.take(RequestRead{again}).find<Save>();
  ASSERT_TRUE(save);
  EXPECT_TRUE(save->asked);
  m.answer(saved());
  ASSERT_EQ(m.actions.size(), 3u);
  EXPECT_TRUE(std::holds_alternative<AnswerApp>(m.actions[0]));
  EXPECT_EQ(m.find<AnswerApp>()->asked, again) << "of the second of its two steps";
  EXPECT_EQ(m.find<AnswerApp>()->result.outcome, api::Outcome::kSuccess);
  EXPECT_TRUE(m.find<NoteResult>()->for_operator);
  EXPECT_TRUE(m.tell().has<Wait>());
}

// Up to the first try.
Machine& ask(Machine& m, WallTime at) {
  m.look(m.nothing_new(), at);
  return m.take(Paused{}).take(RequestRead{at});
}

TEST(SaveMachine, ARequestThatCannotBeTakenAwayIsServedOnceAndALaterOneToo) {
  Machine m;
  const WallTime first = m.wall;
  ask(m, first).answer(saved()).tell();
  EXPECT_TRUE(m.look(m.nothing_new(), first).has<Wait>());
  EXPECT_TRUE(m.look(m.nothing_new(), first + seconds(1)).has<Pause>());
}

TEST(SaveMachine, ARequestThatVanishesMeanwhileIsServed) {
  Machine m;
  const WallTime first = m.wall;
  m.look(m.nothing_new(), first).take(Paused{}).take(RequestRead{});
  EXPECT_TRUE(m.has<Save>());
  EXPECT_EQ(m.answer(saved()).find<AnswerApp>()->asked, first);
}

TEST(SaveMachine, AnAppThatAsksWaitsAMinuteForOtherPodsSaves) {
  Machine m;
  ask(m, m.wall);
  int tries = 0;
  while (m.has<Save>()) {
    ++tries;
    m.answer(busy(seconds(7)));
    if (!m.has<Pause>()) break;
    EXPECT_EQ(m.find<Pause>()->time, seconds(7));
    EXPECT_FALSE(m.has<AnswerApp>());
    m.pass(seconds(7)).take(Paused{});
  }
  EXPECT_EQ(tries, 10) << "at 0, 7, ... 63 s";
  EXPECT_EQ(m.find<AnswerApp>()->result.reason, "busy");
  EXPECT_FALSE(m.find<NoteResult>()->for_operator);
  EXPECT_TRUE(m.has<Wait>());
}

TEST(SaveMachine, OnlyOtherPodsSavesAreWaitedFor) {
  Machine m;
  ask(m, m.wall).answer(unanswered());
  EXPECT_EQ(m.find<AnswerApp>()->result.reason, "operator_unreachable");
}

TEST(SaveMachine, ThePodsEndEndsTheWaitForOtherPodsSaves) {
  Machine m;
  ask(m, m.wall).answer(busy());
  m.end_pod().take(Paused{false});
  EXPECT_EQ(m.find<AnswerApp>()->result.reason, "busy");
  EXPECT_TRUE(m.find<NoteResult>()->for_operator);
  m.tell();
  EXPECT_EQ(m.take(Woken{}).find<Look>()->what, Look::For::kFiles);
}

TEST(SaveMachine, ARequestSeenAtThePodsEndIsTriedForAsLongAsThereIsTime) {
  Machine m;
  m.end_pod();
  m.take(Looked{m.nothing_new(), m.wall}).take(RequestRead{m.wall});
  EXPECT_TRUE(m.find<Pause>()->to_the_end);
  m.take(Paused{}).take(RequestRead{m.wall});
  EXPECT_TRUE(m.find<Save>()->final_save);
  m.answer(busy());
  EXPECT_EQ(m.find<Pause>()->time, kFirstPause) << "not the whole five seconds";
  m.pass(seconds(14)).take(Paused{});
  EXPECT_TRUE(m.has<Save>());
  m.answer(busy()).pass(seconds(1)).take(Paused{});
  EXPECT_TRUE(m.has<AnswerApp>());
}

TEST(SaveMachine, AskedForWhereItIsOffItSaysWhy) {
  Settings settings = usual();
  settings.saves = false;
  settings.why_not = "the pod's mode is ReadOnly";
  Machine m(settings);
  EXPECT_FALSE(m.look(m.made(kQuiet)).has<Save>());
  ask(m, m.wall);
  EXPECT_FALSE(m.has<Save>());
  EXPECT_EQ(m.find<AnswerApp>()->result.reason, "saving_is_off");
  EXPECT_EQ(m.find<AnswerApp>()->result.message, "saving is off: the pod's mode is ReadOnly");
  EXPECT_FALSE(m.has<NoteResult>());
  EXPECT_TRUE(m.has<Wait>());
}

// --- the pod ends ---------------------------------------------------------------------------

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

// --- what is so in any case -----------------------------------------------------------------

// What becomes of an action is a matter of chance; time passes as the action says.
class World {
 public:
  explicit World(uint64_t seed) : random_(seeded_random(seed)) {}

  Input answer(Machine& m) {
    const Action action = m.actions.back();
    if (one_in(50) && !m.state.ending()) return Broke{};
    // The pod's end, once it is asked for, ends both at once.
    if (const auto* wait = std::get_if<Wait>(&action)) {
      if (!m.ends) m.pass(wait->time);
      return Woken{};
    }
    if (const auto* pause = std::get_if<Pause>(&action)) {
      const bool whole = pause->to_the_end || !m.ends;
      if (whole) m.pass(pause->time);
      return Paused{whole};
    }
    m.pass(milliseconds(random_() % 500));
    if (std::holds_alternative<ReportLoad>(action)) {
      return LoadReported{static_cast<LoadReported::Told>(random_() % 3)};
    }
    if (std::holds_alternative<ReadRequest>(action)) {
      if (one_in(4)) return RequestRead{m.wall};
      return RequestRead{};
    }
    if (std::holds_alternative<Save>(action)) return Saved{result(), m.state.saves, m.wall};
    if (one_in(20)) return LookFailed{m.wall};
    return Looked{View{one_in(2), one_in(3), m.wall - milliseconds(random_() % 60'000)}, m.wall};
  }
  bool one_in(uint64_t n) { return random_() % n == 0; }

 private:
  SaveResult result() {
    switch (random_() % 5) {
      case 0:
        return saved();
      case 1:
        return busy(milliseconds(random_() % 10'000));
      case 2:
        return unanswered(milliseconds(random_() % 10'000));
      case 3:
        return not_saved("too_large", Next::kWhenChanged);
      default:
        return not_saved("io", Next::kRetry, seconds(30));
    }
  }
  Random random_;
};

TEST(SaveMachine, WhateverHappensItNeverEndsBeforeThePodAndThenInTime) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    World world(seed);
    Settings settings = usual();
    settings.reports_load = world.one_in(2);
    settings.awaited = world.one_in(2);
    Machine m(settings);
    m.take(Woken{});
    for (uint64_t steps = 20 + seed; steps > 0; --steps) {
      m.take(world.answer(m));
      ASSERT_FALSE(m.has<End>()) << "seed " << seed;
      if (!m.has<Wait>()) continue;
      ASSERT_GE(m.waits(), kShortestPause);
      ASSERT_LE(m.waits(), kLongestPauseOfMany);
    }
    m.end_pod();
    for (int steps = 0; steps < 1000 && !m.has<End>(); ++steps) m.take(world.answer(m));
    ASSERT_TRUE(m.has<End>()) << "seed " << seed;
    // No step takes longer than half a second here.
    ASSERT_LE(m.now - *m.ends, settings.at_termination + seconds(5)) << "seed " << seed;
  }
}

// --- settings -------------------------------------------------------------------------------

TEST(SaveMachine, WhichPodsSave) {
  struct Case {
    api::Mode mode;
    api::SavePolicy policy;
    api::Match loaded;
    bool saves;
    const char* why_not;
  };
  using api::Match, api::Mode, api::SavePolicy;
  for (const auto& [mode, policy, loaded, saves, why_not] :
       {Case{Mode::kReadWrite, SavePolicy::kOnChange, Match::kExact, true, ""},
        Case{Mode::kReadWrite, SavePolicy::kOnChange, Match::kNone, true, ""},
        Case{Mode::kRefresh, SavePolicy::kOnChange, Match::kNone, true, ""},
        Case{Mode::kReadOnly, SavePolicy::kOnChange, Match::kNone, false,
             "the pod's mode is ReadOnly"},
        Case{Mode::kReadWrite, SavePolicy::kNever, Match::kNone, false,
             "spec.save.policy is Never"},
        Case{Mode::kReadWrite, SavePolicy::kOnce, Match::kNone, true, "spec.save.policy is Once"},
        // What was loaded under this very key is the one save.
        Case{Mode::kReadWrite, SavePolicy::kOnce, Match::kExact, false, "spec.save.policy is Once"},
        Case{Mode::kReadWrite, SavePolicy::kOnce, Match::kCompatible, true,
             "spec.save.policy is Once"},
        Case{Mode::kRefresh, SavePolicy::kOnce, Match::kExact, true, "spec.save.policy is Once"}}) {
    api::AgentConfig config;
    config.mode = mode;
    config.save_policy = policy;
    LoadStatus load;
    load.match = loaded;
    if (loaded != Match::kNone) load.outcome = api::Outcome::kSuccess;
    const Settings settings = make_settings(config, load, {});
    const std::string words = std::string(to_string(mode)) + ", " + std::string(to_string(policy));
    EXPECT_EQ(settings.saves, saves) << words;
    EXPECT_EQ(settings.why_not, why_not) << words;
    EXPECT_EQ(settings.once, policy == SavePolicy::kOnce);
  }
}

TEST(SaveMachine, WhoIsAwaitedAndWhoReportsTheLoad) {
  api::AgentConfig config;
  LoadStatus cold, warm;
  warm.outcome = api::Outcome::kSuccess;
  EXPECT_FALSE(make_settings(config, cold, {}).awaited);
  EXPECT_FALSE(make_settings(config, cold, {}).reports_load) << "there is no operator";
  config.wait_for_first_ms = 1;
  config.operator_address = "10.0.0.1";
  EXPECT_TRUE(make_settings(config, cold, {}).awaited);
  EXPECT_FALSE(make_settings(config, warm, {}).awaited);
  EXPECT_TRUE(make_settings(config, warm, {}).reports_load);
  EXPECT_FALSE(make_settings(config, warm, {.load_reported = true}).reports_load);
  warm.reported = true;
  EXPECT_FALSE(make_settings(config, warm, {}).reports_load);
}

}  // namespace
}  // namespace compilecache::agent::saver
