#include "kube/reflector_machine.hpp"

#include <gtest/gtest.h>

#include <optional>

namespace compilecache::kube::reflector {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Drives the machine by hand; time stands still unless a test moves it. The server cannot begin a
// watch with the present objects, unless a test says so.
struct Machine {
  explicit Machine(bool watch_list = false) { state.watch_list = watch_list; }

  State state;
  Monotonic now{std::chrono::hours(1)};
  uint64_t chance = 0;  // what the randomness says: 0 is none, UINT64_MAX all of it
  std::vector<Action> actions;

  Machine& take(const Input& input) {
    Step next = step(state, input, now, [this] { return chance; });
    state = next.state;
    actions = std::move(next.actions);
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
  // To a watch that began at `version`.
  Machine& sync(const std::string& version = "10") {
    take(Start{});
    return take(ListPage{version, ""});
  }
};

TEST(ReflectorMachine, ListsFirstFromTheWatchCacheInPages) {
  Machine m;
  const auto list = m.take(Start{}).find<List>();
  ASSERT_TRUE(list);
  EXPECT_EQ(list->resource_version, "0");
  EXPECT_EQ(list->limit, 500);
}

TEST(ReflectorMachine, LaterPagesCarryOnlyTheContinueToken) {
  Machine m;
  m.take(Start{});
  const auto list = m.take(ListPage{"10", "next"}).find<List>();
  ASSERT_TRUE(list);
  EXPECT_TRUE(m.has<KeepPage>());
  EXPECT_FALSE(m.has<Replace>());
  EXPECT_EQ(list->continue_token, "next");
  EXPECT_EQ(list->resource_version, "");
  EXPECT_EQ(list->limit, 500);
}

TEST(ReflectorMachine, TheLastPageReplacesTheStoreAndWatchesFromTheFirstPagesVersion) {
  Machine m;
  m.take(Start{}).take(ListPage{"10", "next"}).take(ListPage{"12", ""});
  EXPECT_TRUE(m.has<Replace>());
  EXPECT_TRUE(m.state.synced);
  const auto watch = m.find<Watch>();
  ASSERT_TRUE(watch);
  EXPECT_EQ(watch->resource_version, "10");
}

TEST(ReflectorMachine, TheWatchTimeoutIsUniformBetweenFiveAndTenMinutes) {
  Machine m;
  EXPECT_EQ(m.sync().find<Watch>()->timeout, seconds(300));
  m.chance = UINT64_MAX;
  m.now += seconds(5);
  EXPECT_EQ(m.take(WatchEnded{}).find<Watch>()->timeout, seconds(600));
}

TEST(ReflectorMachine, ARealVersionIsListedWithoutLimit) {
  Machine m;
  m.sync("10").take(WatchError{Failure::kExpired, "gone"});
  EXPECT_TRUE(m.has<StopWatch>());
  m.take(WatchEnded{});
  EXPECT_TRUE(m.has<Wait>()) << "a relist backs off first";
  const auto list = m.take(Waited{}).find<List>();
  ASSERT_TRUE(list);
  EXPECT_EQ(list->resource_version, "10") << "410 in mid-watch lists at the last version first";
  EXPECT_EQ(list->limit, 0);
}

TEST(ReflectorMachine, AServerThatPagedAtZeroIsPagedAtRealVersionsToo) {
  Machine m;
  m.take(Start{}).take(ListPage{"10", "next"}).take(ListPage{"10", ""});
  m.take(WatchError{Failure::kExpired, "gone"}).take(WatchEnded{});
  EXPECT_EQ(m.take(Waited{}).find<List>()->limit, 500);
}

TEST(ReflectorMachine, AnExpiredSecondPageIsListedOnceMoreInOnePiece) {
  Machine m;
  m.take(Start{}).take(ListPage{"10", "next"});
  m.take(ListFailed{Failure::kExpired, "gone"});
  EXPECT_TRUE(m.has<Drop>());
  EXPECT_FALSE(m.has<Wait>());
  const auto list = m.find<List>();
  ASSERT_TRUE(list);
  EXPECT_EQ(list->resource_version, "0");
  EXPECT_EQ(list->limit, 0);
  EXPECT_EQ(list->continue_token, "");
}

TEST(ReflectorMachine, AnExpiredOrTooLargeVersionIsListedAtOnceWithoutVersion) {
  for (const Failure failure : {Failure::kExpired, Failure::kTooLarge}) {
    Machine m;
    m.sync("10").take(WatchError{Failure::kExpired, ""}).take(WatchEnded{}).take(Waited{});
    const auto list = m.take(ListFailed{failure, "x"}).find<List>();
    ASSERT_TRUE(list);
    EXPECT_FALSE(m.has<Wait>());
    EXPECT_EQ(list->resource_version, "");
    EXPECT_EQ(list->limit, 500);
    EXPECT_TRUE(m.state.version_unavailable);
    m.take(ListPage{"20", ""});
    EXPECT_FALSE(m.state.version_unavailable);
    EXPECT_EQ(m.find<Watch>()->resource_version, "20");
  }
}

TEST(ReflectorMachine, AListThatIsExpiredEvenWithoutVersionBacksOff) {
  Machine m;
  m.take(Start{}).take(ListFailed{Failure::kExpired, "x"});
  EXPECT_FALSE(m.has<Wait>());
  m.take(ListFailed{Failure::kExpired, "x"});
  EXPECT_TRUE(m.has<Wait>());
  EXPECT_FALSE(m.has<List>());
}

TEST(ReflectorMachine, OtherListFailuresBackOffAndKeepTheState) {
  Machine m;
  m.take(Start{}).take(ListFailed{Failure::kOther, "no route"});
  EXPECT_EQ(m.find<Wait>()->time, milliseconds(800));
  EXPECT_NE(m.find<Report>()->message.find("no route"), std::string::npos);
  EXPECT_EQ(m.take(Waited{}).find<List>()->resource_version, "0");
}

TEST(ReflectorMachine, BackoffDoublesToThirtySecondsAndForgetsAfterTwoMinutes) {
  Machine m;
  m.take(Start{});
  std::vector<Duration> waits;
  for (int i = 0; i < 8; ++i) {
    waits.push_back(m.take(ListFailed{Failure::kOther, ""}).find<Wait>()->time);
    m.take(Waited{});
  }
  const std::vector<Duration> expected{milliseconds(800),  milliseconds(1600),  milliseconds(3200),
                                       milliseconds(6400), milliseconds(12800), milliseconds(25600),
                                       seconds(30),        seconds(30)};
  EXPECT_EQ(waits, expected);
  m.now += std::chrono::minutes(2) + seconds(1);
  EXPECT_EQ(m.take(ListFailed{Failure::kOther, ""}).find<Wait>()->time, milliseconds(800));
}

TEST(ReflectorMachine, JitterStretchesAWaitToLessThanTwice) {
  Machine m;
  m.chance = UINT64_MAX;
  m.take(Start{}).take(ListFailed{Failure::kOther, ""});
  EXPECT_GT(m.find<Wait>()->time, milliseconds(1599));
  EXPECT_LE(m.find<Wait>()->time, milliseconds(1600));
}

TEST(ReflectorMachine, EventsAreAppliedAndMoveTheVersion) {
  Machine m;
  m.sync("10").take(WatchEvent{EventType::kAdded, "11"});
  EXPECT_TRUE(m.has<Apply>());
  m.take(WatchEvent{EventType::kDeleted, "12"});
  EXPECT_TRUE(m.has<Apply>());
  EXPECT_EQ(m.take(WatchEnded{}).find<Watch>()->resource_version, "12");
}

TEST(ReflectorMachine, ABookmarkMovesOnlyTheVersion) {
  Machine m;
  m.sync("10").take(WatchEvent{EventType::kBookmark, "50"});
  EXPECT_TRUE(m.actions.empty());
  EXPECT_EQ(m.take(WatchEnded{}).find<Watch>()->resource_version, "50");
}

TEST(ReflectorMachine, InitialEventsOfAWatchAtZeroDoNotMoveTheVersion) {
  Machine m;
  m.sync("0").take(WatchEvent{EventType::kAdded, "40"});
  EXPECT_TRUE(m.has<Apply>());
  EXPECT_EQ(m.state.last_version, "0");
  m.take(WatchEvent{EventType::kModified, "41"});
  EXPECT_EQ(m.state.last_version, "41");
  m.take(WatchEvent{EventType::kAdded, "42"});
  EXPECT_EQ(m.state.last_version, "42");
}

TEST(ReflectorMachine, AProperEndIsWatchedAgainAtOnce) {
  Machine m;
  m.sync();
  m.now += seconds(300);
  m.take(WatchEnded{WatchEnd::kClosed, {}, ""});
  EXPECT_FALSE(m.has<Wait>());
  EXPECT_TRUE(m.has<Watch>());
}

TEST(ReflectorMachine, AnEmptyWatchOfLessThanASecondIsAnError) {
  Machine m;
  m.sync();
  m.now += milliseconds(900);
  m.take(WatchEnded{});
  EXPECT_TRUE(m.has<Wait>());
  EXPECT_TRUE(m.take(Waited{}).has<List>());
}

TEST(ReflectorMachine, AShortWatchWithAnEventIsNone) {
  Machine m;
  m.sync().take(WatchEvent{EventType::kAdded, "11"}).take(WatchEnded{});
  EXPECT_TRUE(m.has<Watch>());
}

TEST(ReflectorMachine, ABrokenWatchBacksOffAndContinuesWhereItWas) {
  Machine m;
  m.sync().take(WatchEvent{EventType::kAdded, "11"});
  m.take(WatchEnded{WatchEnd::kBroken, {}, "cut"});
  EXPECT_TRUE(m.has<Wait>());
  EXPECT_EQ(m.take(Waited{}).find<Watch>()->resource_version, "11");
}

// As after a restart of the API server, which knows nothing older.
class WatchTooOldAfterAWait : public ::testing::TestWithParam<bool> {};

TEST_P(WatchTooOldAfterAWait, SyncsAtOnceAsItHasWaited) {
  Machine m(true);
  m.take(Start{}).take(WatchEvent{EventType::kBookmark, "10", true});
  m.take(WatchEnded{WatchEnd::kBroken, {}, "cut"}).take(Waited{});
  ASSERT_FALSE(m.find<Watch>()->initial_events);
  const auto too_old = [&] {
    if (GetParam()) {
      m.take(WatchError{Failure::kExpired, "gone"}).take(WatchEnded{});
    } else {
      m.take(WatchEnded{WatchEnd::kNotStarted, Failure::kExpired, "gone"});
    }
  };
  too_old();
  EXPECT_FALSE(m.has<Wait>());
  ASSERT_TRUE(m.has<Watch>());
  EXPECT_TRUE(m.find<Watch>()->initial_events);

  // A server that says so again and again is not asked without a pause.
  m.take(WatchEvent{EventType::kBookmark, "20", true});
  too_old();
  EXPECT_TRUE(m.has<Wait>());
}
INSTANTIATE_TEST_SUITE_P(InTheStreamOrBefore, WatchTooOldAfterAWait, ::testing::Bool());

struct StartCase {
  Failure failure;
  bool lists;
};
class WatchStart : public ::testing::TestWithParam<StartCase> {};

TEST_P(WatchStart, BacksOffThenWatchesOrLists) {
  Machine m;
  m.sync().take(WatchEnded{WatchEnd::kNotStarted, GetParam().failure, "x"});
  EXPECT_TRUE(m.has<Wait>());
  m.take(Waited{});
  EXPECT_EQ(m.has<List>(), GetParam().lists);
  EXPECT_EQ(m.has<Watch>(), !GetParam().lists);
}
INSTANTIATE_TEST_SUITE_P(Rules, WatchStart,
                         ::testing::Values(StartCase{Failure::kRefused, false},
                                           StartCase{Failure::kThrottled, false},
                                           StartCase{Failure::kExpired, true},
                                           StartCase{Failure::kOther, true}));

TEST(ReflectorMachine, AThrottledWatchIsWatchedAgainAfterAWait) {
  Machine m;
  m.sync().take(WatchError{Failure::kThrottled, "busy"}).take(WatchEnded{});
  EXPECT_TRUE(m.has<Wait>());
  EXPECT_TRUE(m.take(Waited{}).has<Watch>());
}

TEST(ReflectorMachine, AnInternalErrorInTheWatchListsAnew) {
  Machine m;
  m.sync().take(WatchError{Failure::kOther, "internal"}).take(WatchEnded{});
  EXPECT_TRUE(m.has<Wait>());
  EXPECT_TRUE(m.take(Waited{}).has<List>());
}

TEST(ReflectorMachine, NothingAfterAnErrorEventIsApplied) {
  Machine m;
  m.sync("10").take(WatchError{Failure::kExpired, "gone"});
  m.take(WatchEvent{EventType::kAdded, "11"});
  EXPECT_TRUE(m.actions.empty());
  EXPECT_EQ(m.state.last_version, "10");
}

// --- the present objects as the beginning of a watch ----------------------------------------

TEST(WatchList, BeginsTheWatchWithThePresentObjectsAndKeepsIt) {
  Machine m(true);
  const auto watch = m.take(Start{}).find<Watch>();
  ASSERT_TRUE(watch);
  EXPECT_TRUE(watch->initial_events);
  EXPECT_EQ(watch->resource_version, "");
  EXPECT_GE(watch->timeout, seconds(300));
  EXPECT_TRUE(m.take(WatchEvent{EventType::kAdded, "7"}).has<Keep>());
  EXPECT_FALSE(m.has<Apply>()) << "the store changes when all are there";
  EXPECT_TRUE(m.take(WatchEvent{EventType::kDeleted, "9"}).has<Keep>());
  EXPECT_TRUE(m.take(WatchEvent{EventType::kBookmark, "8"}).actions.empty());
  m.take(WatchEvent{EventType::kBookmark, "10", true});
  EXPECT_TRUE(m.has<Replace>());
  EXPECT_FALSE(m.has<Watch>()) << "the same watch goes on";
  EXPECT_EQ(m.state.last_version, "10");
  EXPECT_TRUE(m.take(WatchEvent{EventType::kModified, "11"}).has<Apply>());
  const auto next = m.take(WatchEnded{}).find<Watch>();
  EXPECT_EQ(next->resource_version, "11");
  EXPECT_FALSE(next->initial_events);
}

// A machine that has synced at 10 and lost its watch to 410.
Machine expired() {
  Machine m(true);
  m.take(Start{}).take(WatchEvent{EventType::kBookmark, "10", true});
  m.take(WatchError{Failure::kExpired, "gone"}).take(WatchEnded{});
  EXPECT_TRUE(m.has<Wait>());
  m.take(Waited{});
  return m;
}

TEST(WatchList, AfterGoneItBeginsAtTheLastVersion) {
  Machine m = expired();
  ASSERT_TRUE(m.has<Watch>());
  EXPECT_EQ(m.find<Watch>()->resource_version, "10");
  EXPECT_TRUE(m.find<Watch>()->initial_events);
}

class WatchListVersionGone : public ::testing::TestWithParam<Failure> {};
TEST_P(WatchListVersionGone, IsTriedAgainAtOnceWithoutVersion) {
  for (const bool in_the_stream : {true, false}) {
    Machine m = expired();
    if (in_the_stream) {
      m.take(WatchEvent{EventType::kAdded, "7"}).take(WatchError{GetParam(), "x"});
      EXPECT_TRUE(m.has<StopWatch>());
      m.take(WatchEnded{});
    } else {
      m.take(WatchEnded{WatchEnd::kNotStarted, GetParam(), "x"});
    }
    EXPECT_TRUE(m.has<Drop>());
    EXPECT_FALSE(m.has<Wait>());
    ASSERT_TRUE(m.has<Watch>());
    EXPECT_EQ(m.find<Watch>()->resource_version, "");
    EXPECT_TRUE(m.find<Watch>()->initial_events);
    m.take(WatchEvent{EventType::kBookmark, "20", true});
    EXPECT_FALSE(m.state.version_unavailable);
  }
}
INSTANTIATE_TEST_SUITE_P(Rules, WatchListVersionGone,
                         ::testing::Values(Failure::kExpired, Failure::kTooLarge));

class WatchListBusy : public ::testing::TestWithParam<Failure> {};
TEST_P(WatchListBusy, BacksOffAndIsTriedAgain) {
  Machine m(true);
  m.take(Start{}).take(WatchEnded{WatchEnd::kNotStarted, GetParam(), "x"});
  EXPECT_TRUE(m.has<Wait>());
  EXPECT_TRUE(m.take(Waited{}).find<Watch>()->initial_events);
}
INSTANTIATE_TEST_SUITE_P(Rules, WatchListBusy,
                         ::testing::Values(Failure::kRefused, Failure::kThrottled));

TEST(WatchList, AnyOtherErrorFallsBackToListsForGood) {
  for (const Failure failure : {Failure::kOther, Failure::kExpired}) {  // 410 though no version
    Machine m(true);
    m.take(Start{}).take(WatchEnded{WatchEnd::kNotStarted, failure, "422"});
    ASSERT_TRUE(m.has<List>());
    EXPECT_EQ(m.find<List>()->resource_version, "0");
    m.take(ListPage{"5", ""}).take(WatchError{Failure::kExpired, "gone"}).take(WatchEnded{});
    EXPECT_TRUE(m.take(Waited{}).has<List>());
  }
}

TEST(WatchList, AServerThatEndsItWithoutAnEventIsListed) {
  for (const WatchEnd end : {WatchEnd::kClosed, WatchEnd::kBroken}) {
    Machine m(true);
    EXPECT_TRUE(m.take(Start{}).take(WatchEnded{end, {}, ""}).has<List>());
  }
}

TEST(WatchList, WhatWasCutIsForgottenAndBegunAnew) {
  for (const WatchEnd end : {WatchEnd::kClosed, WatchEnd::kBroken}) {
    Machine m(true);
    m.take(Start{}).take(WatchEvent{EventType::kAdded, "7"}).take(WatchEnded{end, {}, "cut"});
    EXPECT_TRUE(m.has<Drop>());
    EXPECT_FALSE(m.has<Replace>());
    EXPECT_TRUE(m.has<Wait>());
    EXPECT_TRUE(m.take(Waited{}).find<Watch>()->initial_events);
  }
}

TEST(WatchList, AMissingBookmarkIsReportedEveryTenSeconds) {
  Machine m(true);
  m.take(Start{});
  m.now += seconds(9);
  EXPECT_FALSE(m.take(Tick{}).has<Report>());
  m.now += seconds(1);
  EXPECT_TRUE(m.take(Tick{}).has<Report>());
  m.now += seconds(9);
  EXPECT_FALSE(m.take(WatchEvent{EventType::kAdded, "7"}).has<Report>());
  m.now += seconds(1);
  EXPECT_TRUE(m.take(WatchEvent{EventType::kAdded, "8"}).has<Report>());
  m.take(WatchEvent{EventType::kBookmark, "10", true});
  m.now += seconds(60);
  EXPECT_FALSE(m.take(Tick{}).has<Report>());
}

}  // namespace
}  // namespace compilecache::kube::reflector
