#include "operator/registry/collection_roll.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "operator/registry/registry_collector.hpp"
#include "tests/unit/operator/control_fixture.hpp"

// When the registry's garbage is collected.

namespace compilecache::controller {
namespace {

using std::chrono::hours;
using std::chrono::minutes;

constexpr RollRules kRules{.above = 100, .interval = hours(24), .quiet_for = minutes(2)};
constexpr WallTime kToday{hours(24 * 20'000)};

RollFacts due() {
  return {.started = kToday - hours(25),
          .enough_since = kToday - minutes(30),
          .saves = 0,
          .last_save = kToday - minutes(3),
          .now = kToday};
}

TEST(CollectionRoll, WhenThereIsEnoughAndNobodySaves) {
  EXPECT_TRUE(roll_is_due(due(), kRules));
  RollFacts facts = due();
  facts.last_save.reset();
  EXPECT_TRUE(roll_is_due(facts, kRules));
  facts = due();
  facts.enough_since.reset();
  EXPECT_FALSE(roll_is_due(facts, kRules));
  facts = due();
  facts.started = kToday - hours(23);
  EXPECT_FALSE(roll_is_due(facts, kRules)) << "once a day";
  facts = due();
  facts.saves = 1;
  EXPECT_FALSE(roll_is_due(facts, kRules));
  facts = due();
  facts.last_save = kToday - minutes(1);
  EXPECT_FALSE(roll_is_due(facts, kRules)) << "not quiet yet";
  facts = due();
  facts.started.reset();
  EXPECT_FALSE(roll_is_due(facts, kRules)) << "it does not run";
}

TEST(CollectionRoll, AVolumeDoesNotFillBecauseSomebodyAlwaysSaves) {
  RollFacts facts = due();
  facts.saves = 16;
  facts.last_save = kToday;
  EXPECT_FALSE(roll_is_due(facts, kRules));
  facts.started = kToday - hours(24) - kRules.longest_wait;
  EXPECT_FALSE(roll_is_due(facts, kRules)) << "there is enough for half an hour";
  facts.enough_since = kToday - kRules.longest_wait;
  EXPECT_TRUE(roll_is_due(facts, kRules));
  facts.started = kToday - hours(24);
  EXPECT_FALSE(roll_is_due(facts, kRules)) << "due only now";
}

TEST(CollectionRoll, AFullRegistryIsCollectedSoonAndThenEverMoreRarely) {
  FullFacts facts{.started = kToday - minutes(11), .reported = kToday, .now = kToday};
  EXPECT_TRUE(full_roll_is_due(facts, kRules));
  facts.started = kToday - minutes(9);
  EXPECT_FALSE(full_roll_is_due(facts, kRules));
  facts.started = kToday - minutes(11);
  facts.rolls = 1;
  EXPECT_FALSE(full_roll_is_due(facts, kRules));
  facts.started = kToday - minutes(20);
  EXPECT_TRUE(full_roll_is_due(facts, kRules));
  facts.rolls = 1000;
  EXPECT_FALSE(full_roll_is_due(facts, kRules));
  facts.started = kToday - hours(24);
  EXPECT_TRUE(full_roll_is_due(facts, kRules)) << "once a day at least";
  facts.reported = kToday - hours(25);
  EXPECT_FALSE(full_roll_is_due(facts, kRules)) << "nobody has said so since it was started";
  facts.reported.reset();
  EXPECT_FALSE(full_roll_is_due(facts, kRules));
}

TEST(CollectionRoll, WhatIsEnoughIsEnoughFromTheReportThatMadeItSo) {
  const std::vector<DeletedBytes> deleted{
      {kToday + hours(3), 40}, {kToday - hours(1), 1000}, {kToday + hours(2), 60}};
  EXPECT_EQ(enough_since(deleted, kToday, kRules), kToday + hours(3));
  EXPECT_EQ(enough_since({{kToday + hours(1), 99}}, kToday, kRules), std::nullopt);
}

TEST(CollectionRoll, WhatNobodyCountedIsFreedOnceAWeek) {
  RollFacts facts = due();
  facts.enough_since.reset();
  facts.started = kToday - hours(24 * 7);
  EXPECT_TRUE(roll_is_due(facts, kRules));
  facts.started = kToday - hours(24 * 6);
  EXPECT_FALSE(roll_is_due(facts, kRules));
  facts.started = kToday - hours(24 * 30);
  facts.last_save = kToday - hours(24 * 40);
  EXPECT_FALSE(roll_is_due(facts, kRules)) << "nothing was saved since";
  facts.leftovers = true;
  EXPECT_TRUE(roll_is_due(facts, kRules)) << "but something was deleted";
}

TEST(CollectionRoll, OnlyWhatWasDeletedSinceTheStartIsGarbage) {
  EXPECT_EQ(garbage_since({{kToday - hours(2), 1}, {kToday, 10}, {kToday + hours(1), 100}}, kToday),
            100U);
  EXPECT_EQ(garbage_since({}, kToday), 0U);
}

class Collector : public ::testing::Test {
 protected:
  static constexpr char kDeployed[] = "/apis/apps/v1/deployments";

  Collector() {
    server.put(kDeployed, {{"metadata", {{"name", "images"}, {"namespace", "system"}}},
                           {"spec", {{"template", {{"metadata", nlohmann::json::object()}}}}}});
    EXPECT_TRUE(keeper.round());
    become_ready();
  }
  void become_ready() {
    auto deployment = server.objects(kDeployed).at("system/images");
    deployment["status"] = {{"observedGeneration", 1'000'000},
                            {"replicas", 1},
                            {"updatedReplicas", 1},
                            {"readyReplicas", 1}};
    server.put(kDeployed, deployment);
    EXPECT_TRUE(keeper.round());
  }
  std::string told() const {
    return server.objects(kDeployed)
        .at("system/images")
        .at("spec")
        .at("template")
        .at("metadata")
        .at("annotations")
        .at(kStartedAnnotation);
  }

  testing::FakeApiServer server;
  FakeClock clock;
  TokenMinter minter{clock, seeded_random(1)};
  RegistryKeeper keeper{test::client_of(server),
                        {.ns = "system", .name = "images"},
                        {minter, [] { return true; }, [] { return KeyPair{}; }, seeded_random(2)},
                        clock};
  RegistryCollector collector{keeper, kRules, clock};
};

TEST_F(Collector, MakesThePodAnewOnce) {
  EXPECT_EQ(keeper.started(), clock.wall());
  const std::string first = told();
  clock.advance(hours(25));
  ASSERT_TRUE(collector.look({}));
  EXPECT_EQ(told(), first) << "there is nothing to free";
  collector.deleted(clock.wall(), 60);
  collector.deleted(clock.wall(), 60);
  ASSERT_TRUE(collector.look({.saves = 1}));
  EXPECT_EQ(told(), first);
  ASSERT_TRUE(collector.look({}));
  EXPECT_EQ(told(), format_time(clock.wall()));
  EXPECT_EQ(keeper.started(), std::nullopt);
  // While it starts, and after.
  clock.advance(minutes(1));
  const std::string second = told();
  ASSERT_TRUE(collector.look({}));
  become_ready();
  EXPECT_NE(keeper.started(), std::nullopt);
  clock.advance(hours(48));
  ASSERT_TRUE(collector.look({}));
  EXPECT_EQ(told(), second) << "deleted bytes are freed";
  collector.deleted(clock.wall(), 100);
  ASSERT_TRUE(collector.look({}));
  EXPECT_NE(told(), second);
}

TEST_F(Collector, AnAgentThatFindsItFullHasItCollected) {
  const std::string first = told();
  clock.advance(minutes(20));
  EXPECT_EQ(collector.full_since(), std::nullopt);
  collector.found_full();
  EXPECT_EQ(collector.full_since(), clock.wall());
  ASSERT_TRUE(collector.look({.saves = 1}));
  const std::string second = told();
  EXPECT_NE(second, first);
  become_ready();
  clock.advance(minutes(11));
  collector.found_full();
  ASSERT_TRUE(collector.look({}));
  EXPECT_EQ(told(), second) << "it was of no use a moment ago";
  clock.advance(minutes(11));
  ASSERT_TRUE(collector.look({}));
  EXPECT_NE(told(), second);
  EXPECT_NE(collector.full_since(), std::nullopt);
  collector.found_room();
  EXPECT_EQ(collector.full_since(), std::nullopt);
}

TEST_F(Collector, TellsWhatTheApiServerRefuses) {
  clock.advance(hours(25));
  collector.deleted(clock.wall(), 100);
  server.erase(kDeployed, "system", "images");
  const Status looked = collector.look({});
  ASSERT_FALSE(looked);
  EXPECT_NE(looked.error().message.find("restarting the registry"), std::string::npos);
}

}  // namespace
}  // namespace compilecache::controller
