#include "kube/lease_machine.hpp"

#include <gtest/gtest.h>

namespace compilecache::kube::lease {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const Monotonic kStart{std::chrono::hours(1)};

Config me() { return {.identity = "me"}; }

Record held_by(const std::string& holder) {
  return {.holder = holder,
          .duration_seconds = 15,
          .transitions = 3,
          .acquire_time = "a",
          .renew_time = "r",
          .resource_version = "7"};
}

struct Case {
  const char* name;
  std::optional<Record> record;
  seconds age;
  Decision decision;
};
class Decide : public ::testing::TestWithParam<Case> {};

TEST_P(Decide, FollowsTheTable) {
  const Case& c = GetParam();
  const Observation seen{c.record, kStart};
  EXPECT_EQ(decide(seen, me(), kStart + c.age), c.decision);
}
INSTANTIATE_TEST_SUITE_P(
    Table, Decide,
    ::testing::Values(Case{"none", std::nullopt, seconds(0), Decision::kCreate},
                      Case{"mine", held_by("me"), seconds(0), Decision::kRenew},
                      Case{"mine_old", held_by("me"), seconds(99), Decision::kRenew},
                      Case{"released", held_by(""), seconds(0), Decision::kTakeOver},
                      Case{"other_fresh", held_by("other"), seconds(0), Decision::kWait},
                      Case{"other_last_second", held_by("other"), seconds(14), Decision::kWait},
                      Case{"other_expired", held_by("other"), seconds(15), Decision::kTakeOver}),
    [](const auto& row) { return row.param.name; });

TEST(Lease, OnlyAChangeOfTheRecordStartsTheTimeAnew) {
  Observation seen = observe({}, held_by("other"), kStart);
  seen = observe(seen, held_by("other"), kStart + seconds(10));
  EXPECT_EQ(decide(seen, me(), kStart + seconds(15)), Decision::kTakeOver);
  Record renewed = held_by("other");
  renewed.renew_time = "r2";
  seen = observe(seen, renewed, kStart + seconds(10));
  EXPECT_EQ(decide(seen, me(), kStart + seconds(15)), Decision::kWait);
  EXPECT_EQ(decide(seen, me(), kStart + seconds(25)), Decision::kTakeOver);
}

TEST(Lease, WhoWaitsLooksEverySecondAndWhenTheLeaseExpires) {
  const Observation other{held_by("other"), kStart};
  EXPECT_EQ(next_look(other, me(), kStart, 0), seconds(1));
  EXPECT_LT(next_look(other, me(), kStart, 0.99), milliseconds(1'200));
  EXPECT_EQ(next_look(other, me(), kStart + milliseconds(14'700), 0.5), milliseconds(300));
  EXPECT_EQ(next_look(other, me(), kStart + seconds(20), 0), seconds(1)) << "no hot loop";
  EXPECT_EQ(next_look({}, me(), kStart, 0), seconds(1));
}

TEST(Lease, TheOtherHoldersClockDoesNotMatter) {
  Record ancient = held_by("other");
  ancient.renew_time = "1970-01-01T00:00:00.000000Z";
  const Observation seen = observe({}, ancient, kStart);
  EXPECT_EQ(decide(seen, me(), kStart + seconds(1)), Decision::kWait);
}

TEST(Lease, TakingOverCountsATransitionAndRenewingDoesNot) {
  const WallTime wall{std::chrono::hours(24 * 365 * 50)};
  const Record taken = next_record({held_by("other"), kStart}, me(), wall);
  EXPECT_EQ(taken.holder, "me");
  EXPECT_EQ(taken.transitions, 4);
  EXPECT_EQ(taken.acquire_time, taken.renew_time);
  EXPECT_EQ(taken.duration_seconds, 15);
  const Record renewed = next_record({held_by("me"), kStart}, me(), wall);
  EXPECT_EQ(renewed.transitions, 3);
  EXPECT_EQ(renewed.acquire_time, "a");
  EXPECT_NE(renewed.renew_time, "r");
  EXPECT_EQ(next_record({}, me(), wall).transitions, 0);
}

TEST(Lease, AReleasedLeaseIsFreeAtOnce) {
  const Record released = released_record(held_by("other"), WallTime{});
  EXPECT_EQ(released.transitions, 3);
  EXPECT_EQ(released.duration_seconds, 1);
  EXPECT_EQ(decide({released, kStart}, me(), kStart), Decision::kTakeOver);
}

TEST(Lease, IsLostTenSecondsAfterTheLastRenewal) {
  EXPECT_FALSE(lost(kStart, me(), kStart + seconds(9)));
  EXPECT_TRUE(lost(kStart, me(), kStart + seconds(10)));
}

TEST(Lease, NumbersThatDoNotFitAreRefused) {
  EXPECT_TRUE(validate(me()));
  Config config = me();
  config.lease_duration = seconds(10);
  EXPECT_NE(validate(config).error().message.find("lease duration"), std::string::npos);
  config = me();
  config.retry_period = seconds(9);
  EXPECT_NE(validate(config).error().message.find("retry period"), std::string::npos);
  config = me();
  config.identity = "";
  EXPECT_NE(validate(config).error().message.find("identity"), std::string::npos);
}

// Two electors, each with its own clock's start, and a server that loses answers: never do both
// believe that they lead.
TEST(Lease, TwoNeverLeadAtOnceWhateverIsLost) {
  struct Elector {
    Config config;
    Observation seen;
    bool leading = false;
    Monotonic renewed{};
  };
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    uint64_t state = seed;
    const auto chance = [&state](uint64_t n) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      return (state >> 33) % n;
    };
    Elector electors[2] = {{.config = {.identity = "a"}}, {.config = {.identity = "b"}}};
    std::optional<Record> server;
    int64_t version = 0;
    Monotonic now = kStart;
    int changes = 0;
    for (int i = 0; i < 2000; ++i) {
      now += std::chrono::milliseconds(chance(3000));
      Elector& e = electors[chance(2)];
      if (e.leading && lost(e.renewed, e.config, now)) e.leading = false;
      if (chance(4) == 0) continue;  // the request does not arrive
      const Monotonic began = now;
      e.seen = observe(e.seen, server, now);
      const Decision decision = decide(e.seen, e.config, now);
      if (decision == Decision::kWait) {
        e.leading = false;
      } else {
        Record next = next_record(e.seen, e.config, WallTime(now.time_since_epoch()));
        next.resource_version = std::to_string(++version);
        server = next;
        if (chance(4) != 0) {  // else the answer is lost
          e.seen = observe(e.seen, server, now);
          changes += e.leading ? 0 : 1;
          e.leading = true;
          e.renewed = began;
        }
      }
      const auto leads = [&](const Elector& x) {
        return x.leading && !lost(x.renewed, x.config, now);
      };
      ASSERT_FALSE(leads(electors[0]) && leads(electors[1])) << "step " << i;
    }
    EXPECT_GT(changes, 0);
  }
}

}  // namespace
}  // namespace compilecache::kube::lease
