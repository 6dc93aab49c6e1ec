#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "base/random.hpp"
#include "tests/unit/agent/save_machine_driver.hpp"

// The saver's machine while the pod runs: when it scans and saves; which pods save; and rules
// for all of them.

namespace compilecache::agent::saver {
namespace {

using std::chrono::minutes;
using Next = SaveResult::Next;

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

// The result of an action is a matter of chance; time passes as the action says.
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
        // The archive loaded under this exact key is the one save.
        Case{Mode::kReadWrite, SavePolicy::kOnce, Match::kExact, false, "spec.save.policy is Once"},
        Case{Mode::kReadWrite, SavePolicy::kOnce, Match::kCompatible, true,
             "spec.save.policy is Once"},
        Case{Mode::kRefresh, SavePolicy::kOnce, Match::kExact, true, "spec.save.policy is Once"}}) {
    api::AgentConfig config;
    config.mode = mode;
    config.save.policy = policy;
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
  config.load.wait_for_first = std::chrono::milliseconds(1);
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
