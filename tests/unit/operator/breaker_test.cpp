#include "operator/breaker/breaker.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <chrono>
#include <list>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/time_format.hpp"

namespace compilecache::controller {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using Kind = PodSign::Kind;

// A CompileCache's pods and its breaker, from look to look.
class World {
 public:
  struct Pod {
    PodView view;
    PodSign sign;
  };

  Pod& add(const std::string& node, Kind kind = Kind::kPast) {
    Pod& pod = pods_.emplace_back();
    pod.view.name = "web-" + std::to_string(++names_);
    pod.view.uid = "uid-" + std::to_string(names_);
    pod.view.node = node;
    pod.view.created = format_time(now + apart);
    set(pod, kind);
    return pod;
  }
  static void set(Pod& pod, Kind kind, Trouble trouble = Trouble::kImage) {
    const bool bad = kind == Kind::kTrouble;
    const bool waits = kind == Kind::kWaits;
    pod.sign = {kind, trouble, bad ? "ErrImagePull" : "",
                bad || waits ? Duration(seconds(30)) : Duration(0)};
  }
  void remove(const Pod& gone) {
    pods_.remove_if([&](const Pod& pod) { return &pod == &gone; });
  }
  void remove_all() { pods_.clear(); }

  const BreakerVerdict& look(Probe probe = Probe::kNone, bool spec_changed = false) {
    std::vector<PodLook> looks;
    for (const Pod& pod : pods_) looks.push_back({&pod.view, pod.sign});
    seen = troubles.evaluate(looks, failed_mounts, now);
    verdict = judge_breaker(verdict.state, {seen, nodes, probe, spec_changed, refused}, rules, now);
    if (verdict.state.open != was_open_) troubles.settle();
    was_open_ = verdict.state.open;
    return verdict;
  }
  const BreakerVerdict& after(Duration time, Probe probe = Probe::kNone) {
    now += std::chrono::duration_cast<WallTime::duration>(time);
    return look(probe);
  }
  // Another leader: what is not in the status is forgotten.
  void hand_over() {
    api::CompileCacheStatus status;
    write_breaker(verdict.state, 1, format_time(now), status);
    verdict.state = read_breaker(status);
    ledger = std::make_unique<PodLedger>();
    troubles = PodTroubles(rules, *ledger);
    if (verdict.state.since) troubles.expect(verdict.stuck);
  }

  Settings::Breaker rules;
  WallTime now{hours(24 * 365 * 56)};
  hours apart{0};  // the API server's clock from this one
  size_t nodes = 3;
  std::optional<RefusedPod> refused;
  std::map<std::string, std::string> failed_mounts;
  std::unique_ptr<PodLedger> ledger = std::make_unique<PodLedger>();
  PodTroubles troubles{rules, *ledger};
  StuckPods seen;
  BreakerVerdict verdict;

 private:
  std::list<Pod> pods_;
  int names_ = 0;
  bool was_open_ = false;
};

TEST(Breaker, OpensWhenPodsOnTwoNodesDoNotStart) {
  World world;
  world.add("n1", Kind::kTrouble);
  world.add("n2", Kind::kTrouble);
  EXPECT_FALSE(world.look().state.open) << "a fault has to last";
  EXPECT_EQ(world.verdict.again, seconds(30));
  EXPECT_FALSE(world.after(seconds(29)).state.open);
  EXPECT_TRUE(world.verdict.stuck.empty());
  EXPECT_TRUE(world.after(seconds(1)).state.open);
  EXPECT_EQ(world.verdict.stuck, (std::vector<std::string>{"web-1", "web-2"}));
  EXPECT_EQ(world.verdict.state.reason, "ImageNotPulled");
  EXPECT_NE(world.verdict.state.message.find("2 of 2 pods"), std::string::npos);
  EXPECT_NE(world.verdict.state.message.find("web-1: ErrImagePull"), std::string::npos);
  EXPECT_EQ(world.verdict.again, minutes(1)) << "then it is probed";
}

TEST(Breaker, AFaultThatPassesIsForgotten) {
  World world;
  world.nodes = 1;
  World::Pod& pod = world.add("n1", Kind::kTrouble);
  world.look();
  world.after(seconds(10));
  World::set(pod, Kind::kPast);
  for (int i = 0; i < 10; ++i) {
    EXPECT_FALSE(world.after(seconds(5)).state.open) << "it lasted for 10 s";
    EXPECT_TRUE(world.verdict.stuck.empty());
  }
}

TEST(Breaker, OneNodeOfSeveralHasToFailForLong) {
  World world;
  world.add("n1", Kind::kTrouble);
  world.add("n1", Kind::kTrouble);
  world.look();
  EXPECT_FALSE(world.after(seconds(30)).state.open);
  EXPECT_EQ(world.verdict.stuck.size(), 2U) << "they are named all the same";
  EXPECT_EQ(world.verdict.again, minutes(5) - seconds(30));
  EXPECT_TRUE(world.after(world.verdict.again).state.open);
}

TEST(Breaker, OneNodeIsEnoughWhereThereIsNoOther) {
  World world;
  world.nodes = 1;
  world.add("n1", Kind::kTrouble);
  world.look();
  EXPECT_TRUE(world.after(seconds(30)).state.open);
}

TEST(Breaker, ANodeThatIsBrokenPausesNobodyWhileOthersStart) {
  World world;
  for (int i = 0; i < 3; ++i) world.add("n1", Kind::kTrouble);
  world.add("n2");
  world.look();
  EXPECT_FALSE(world.after(hours(1)).state.open);
  EXPECT_EQ(world.verdict.stuck.size(), 3U);
}

TEST(Breaker, PodsThatStartedLongAgoSayNothingAboutNow) {
  World world;
  for (int i = 0; i < 100; ++i) world.add("n" + std::to_string(i % 3));
  world.after(hours(2));
  world.add("n1", Kind::kTrouble);
  world.add("n2", Kind::kTrouble);
  world.look();
  EXPECT_TRUE(world.after(seconds(30)).state.open);
}

TEST(Breaker, WhatNoNodeTakesNeedsNoSecondNode) {
  World world;
  World::set(world.add(""), Kind::kTrouble, Trouble::kUnschedulable);
  world.look();
  EXPECT_TRUE(world.after(seconds(30)).state.open);
  EXPECT_EQ(world.verdict.state.reason, "Unschedulable");
}

TEST(Breaker, VolumesThatAreNotMountedCountByWhatTheKubeletSays) {
  World world;
  world.nodes = 1;
  World::Pod& pod = world.add("n1", Kind::kWaits);
  world.look();
  EXPECT_TRUE(world.seen.waiting.empty());
  world.after(seconds(30));
  EXPECT_EQ(world.seen.waiting.count(pod.view.uid), 1U);
  EXPECT_GE(world.seen.read_events, seconds(10));
  EXPECT_FALSE(world.after(minutes(20)).state.open) << "its own affair: another volume, a network";
  world.failed_mounts[pod.view.uid] = "FailedMount: not a directory";
  EXPECT_TRUE(world.look().state.open);
  EXPECT_EQ(world.verdict.state.reason, "ClaimNotMounted");
}

TEST(Breaker, ALoaderMayRunForItsBudgetOnly) {
  World world;
  world.nodes = 1;
  World::Pod& pod = world.add("n1");
  pod.sign = {Kind::kLoads, {}, {}, minutes(4)};
  world.look();
  EXPECT_FALSE(world.after(minutes(4) - seconds(1)).state.open);
  EXPECT_TRUE(world.after(seconds(1)).state.open);
  EXPECT_EQ(world.verdict.state.reason, "LoaderTooSlow");
}

TEST(Breaker, AContainerThatRunsBetweenItsEndsIsNotWell) {
  World world;
  world.nodes = 1;
  World::Pod& pod = world.add("n1", Kind::kTrouble);
  pod.sign.patience = Duration(0);
  EXPECT_TRUE(world.look().state.open);
  for (int i = 0; i < 20; ++i) {
    World::set(pod, Kind::kPast);
    EXPECT_TRUE(world.after(seconds(10)).state.open);
    World::set(pod, Kind::kTrouble);
    EXPECT_TRUE(world.after(seconds(10)).state.open);
  }
  World::set(pod, Kind::kPast);
  world.look();
  EXPECT_TRUE(world.verdict.state.open);
  EXPECT_FALSE(world.after(seconds(30)).state.open);
  EXPECT_EQ(world.verdict.state.reason, "PodsRecovered");
}

class OpenBreaker : public ::testing::Test {
 protected:
  void SetUp() override {
    one = &world.add("n1", Kind::kTrouble);
    two = &world.add("n2", Kind::kTrouble);
    world.look();
    ASSERT_TRUE(world.after(seconds(30)).state.open);
  }
  void open_again() {
    one = &world.add("n1", Kind::kTrouble);
    two = &world.add("n2", Kind::kTrouble);
    world.look();
    ASSERT_TRUE(world.after(seconds(30)).state.open);
  }
  World world;
  World::Pod *one = nullptr, *two = nullptr;
};

TEST_F(OpenBreaker, ClosesWhenItsPodsGetPastByThemselves) {
  World::set(*one, Kind::kPast);
  world.after(minutes(2));
  EXPECT_TRUE(world.after(seconds(30)).state.open) << "one is still stuck";
  World::set(*two, Kind::kPast);
  world.look();
  EXPECT_TRUE(world.verdict.state.open) << "for how long?";
  EXPECT_FALSE(world.after(seconds(30)).state.open);
  EXPECT_TRUE(world.verdict.stuck.empty());
}

TEST_F(OpenBreaker, NotSoonerThanThePause) {
  World::set(*one, Kind::kPast);
  World::set(*two, Kind::kPast);
  world.look();
  EXPECT_TRUE(world.after(seconds(30)).state.open);
  EXPECT_EQ(world.verdict.again, seconds(30));
  EXPECT_FALSE(world.after(seconds(30)).state.open);
}

TEST_F(OpenBreaker, IsProbedWhenItsPodsAreGone) {
  world.remove_all();
  EXPECT_FALSE(world.after(seconds(59)).probe);
  EXPECT_EQ(world.verdict.again, seconds(1));
  EXPECT_TRUE(world.after(seconds(1)).probe);
  EXPECT_EQ(world.verdict.state.node, "n1") << "where it failed";
  EXPECT_TRUE(world.after(seconds(10), Probe::kRuns).state.open);
  EXPECT_FALSE(world.after(seconds(1), Probe::kSucceeded).state.open);
  EXPECT_EQ(world.verdict.state.reason, "ProbeSucceeded");
}

TEST_F(OpenBreaker, EveryFailedProbeDoublesThePause) {
  world.remove_all();
  Duration expected = minutes(2);
  world.after(minutes(1));
  for (int i = 0; i < 12; ++i) {
    EXPECT_FALSE(world.after(seconds(5), Probe::kFailed).probe);
    EXPECT_EQ(world.verdict.again, expected);
    EXPECT_TRUE(world.verdict.state.node.empty()) << "that node may be full, or gone";
    EXPECT_TRUE(world.after(expected).probe);
    expected = std::min<Duration>(expected * 2, hours(1));
  }
}

TEST_F(OpenBreaker, AChangedSpecIsProbedAtOnce) {
  EXPECT_FALSE(world.look().probe);
  EXPECT_TRUE(world.look(Probe::kNone, true).probe);
}

TEST_F(OpenBreaker, PodsThatStayStuckDoNotOpenItAgain) {
  EXPECT_FALSE(world.after(minutes(1), Probe::kSucceeded).state.open);
  EXPECT_FALSE(world.after(hours(5)).state.open);
  EXPECT_EQ(world.verdict.stuck.size(), 2U) << "but are named";
  open_again();
}

TEST_F(OpenBreaker, EveryOpeningSoonAfterTheLastDoublesThePause) {
  Duration expected = minutes(1);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(pause_of(world.verdict.state, world.rules), expected);
    world.remove_all();
    EXPECT_FALSE(world.after(expected, Probe::kSucceeded).state.open);
    expected = std::min<Duration>(expected * 2, hours(1));
    open_again();
  }
  world.remove_all();
  world.after(hours(1), Probe::kSucceeded);
  world.after(hours(2));
  open_again();
  EXPECT_EQ(world.verdict.state.openings, 1) << "that is long ago";
}

TEST_F(OpenBreaker, AnotherLeaderGoesOnWithIt) {
  const BreakerState before = world.verdict.state;
  world.hand_over();
  EXPECT_EQ(world.verdict.state, before);
  EXPECT_EQ(world.look().stuck.size(), 2U) << "without waiting";
  World::set(*one, Kind::kPast);
  World::set(*two, Kind::kPast);
  world.hand_over();
  world.after(minutes(1));
  EXPECT_FALSE(world.after(seconds(30)).state.open);
}

TEST_F(OpenBreaker, AnotherLeaderDoesNotOpenItForWhatIsKnown) {
  world.after(minutes(1), Probe::kSucceeded);
  world.hand_over();
  world.look();
  EXPECT_FALSE(world.after(hours(5)).state.open);
  EXPECT_EQ(world.verdict.stuck.size(), 2U);
}

TEST_F(OpenBreaker, PodsThatFailedForEverAreNamedOnlyWhileItIsOpen) {
  one->view.phase = two->view.phase = "Failed";
  EXPECT_EQ(world.look().stuck.size(), 2U);
  EXPECT_FALSE(world.after(minutes(1), Probe::kSucceeded).state.open);
  EXPECT_TRUE(world.verdict.stuck.empty());
}

// When pods were made says the API server, by its clock.
class ClocksApart : public OpenBreaker, public ::testing::WithParamInterface<hours> {
 protected:
  void SetUp() override {
    world.apart = GetParam();
    OpenBreaker::SetUp();
  }
};

TEST_P(ClocksApart, PodsThatStayStuckDoNotOpenItAgain) {
  EXPECT_FALSE(world.after(minutes(1), Probe::kSucceeded).state.open);
  EXPECT_FALSE(world.after(minutes(1)).state.open);
  world.hand_over();
  EXPECT_FALSE(world.after(hours(5)).state.open);
  EXPECT_EQ(world.verdict.stuck.size(), 2U) << "but are named";
}

TEST_P(ClocksApart, PodsThatAreMadeLaterDoAndALeaderWhoIsToldOfThemCountsThem) {
  ASSERT_FALSE(world.after(minutes(1), Probe::kSucceeded).state.open);
  world.now += hours(1);
  world.add("n1", Kind::kTrouble);
  world.look();
  ASSERT_FALSE(world.after(seconds(30)).state.open) << "on one node";
  world.hand_over();
  ASSERT_FALSE(world.look().state.open);
  world.add("n2", Kind::kTrouble);
  world.look();
  EXPECT_TRUE(world.after(seconds(30)).state.open);
}

INSTANTIATE_TEST_SUITE_P(AheadAndBehind, ClocksApart, ::testing::Values(hours(2), hours(-2)),
                         [](const auto& apart) { return apart.index == 0 ? "Ahead" : "Behind"; });

// A previous leader may have had a clock that was ahead, by years if it had none.
TEST_F(OpenBreaker, ATimeToComeKeepsItOpenNoLongerThanAPause) {
  world.verdict.state.since = world.now + hours(24 * 365);
  world.verdict.state.probe_at = world.now + hours(24 * 365);
  world.hand_over();
  EXPECT_FALSE(world.look().probe);
  EXPECT_TRUE(world.after(minutes(1)).probe);
  World::set(*one, Kind::kPast);
  World::set(*two, Kind::kPast);
  world.look();
  world.after(seconds(30));
  EXPECT_FALSE(world.after(minutes(1)).state.open);
  EXPECT_EQ(world.verdict.state.reason, "PodsRecovered");
}

TEST(Breaker, NamesABoundedNumber) {
  World world;
  for (int i = 0; i < 500; ++i) world.add("n" + std::to_string(i % 7), Kind::kTrouble);
  world.look();
  EXPECT_EQ(world.after(seconds(30)).stuck.size(), 32U);
}

TEST(Breaker, APodThatWasNotAdmittedOnOurAccountOpensItAtOnce) {
  World world;
  for (int i = 0; i < 10; ++i) world.add("n1");
  world.look();
  const RefusedPod refused{"ReplicaSet web-1: compilecache-save must not run as root"};
  world.refused = refused;
  ASSERT_TRUE(world.look().state.open) << "without us it would be there";
  EXPECT_EQ(world.verdict.state.reason, "PodsRefused");
  EXPECT_NE(world.verdict.state.message.find(refused.text), std::string::npos);

  world.refused.reset();
  ASSERT_FALSE(world.after(minutes(1), Probe::kSucceeded).state.open);
  world.refused = refused;
  EXPECT_TRUE(world.after(seconds(1)).state.open) << "another one";
}

TEST(Refusals, TellWhetherOurContainersAreMeant) {
  EXPECT_TRUE(places_in("[psp-allowed-users] Container compilecache-save is attempting to run as "
                        "disallowed user 0")
                  .name_ours);
  const RefusedPlaces constrained = places_in(
      "unable to validate against any security context constraint: "
      "[spec.initContainers[1].securityContext.runAsUser: Invalid value: 0, "
      "spec.initContainers[12].securityContext.runAsUser: Invalid value: 0]");
  EXPECT_EQ(constrained.init_containers, (std::set<size_t>{1, 12}));
  EXPECT_TRUE(constrained.may_be_ours());
  EXPECT_FALSE(constrained.name_ours);
  EXPECT_EQ(places_in("rule run-as-non-root-user failed at path "
                      "/spec/initContainers/1/securityContext/runAsUser/")
                .init_containers,
            std::set<size_t>{1});
  for (const char* elsewhere :
       {"exceeded quota: pods", "spec.containers[0].image: not allowed", "initContainers",
        "spec.initContainers: too many", "initContainers[", "initContainers[x]", "initContainers[1",
        "initContainers[-1]", "initContainers/1]", "initContainers[99999999999999999999999]"}) {
    EXPECT_FALSE(places_in(elsewhere).may_be_ours()) << elsewhere;
  }
}

TEST(Refusals, OursAreTwoThatFollowOneAnother) {
  const RefusedPlaces places{.init_containers = {2}};
  EXPECT_FALSE(places.are_among(0));
  EXPECT_TRUE(places.are_among(1));
  EXPECT_TRUE(places.are_among(2));
  EXPECT_FALSE(places.are_among(3));
}

TEST(Refusals, AreAboutAUserOrNot) {
  EXPECT_TRUE(
      is_about_a_user("spec.initContainers[1].securityContext.runAsUser: Invalid value: 0"));
  EXPECT_TRUE(is_about_a_user("Running as root is not allowed"));
  EXPECT_FALSE(is_about_a_user("the registry of image \"compilecache\" is not allowed"));
}

TEST(Refusals, AreReadFromAnyEvent) {
  const auto read = [](const char* text) { return *parse_refusal(nlohmann::json::parse(text)); };
  const Refusal whole = read(R"({"involvedObject": {"namespace": "ml", "kind": "ReplicaSet",
      "name": "web-1", "uid": "u1"}, "message": "no",
      "metadata": {"name": "web-1.18", "resourceVersion": "42"}})");
  EXPECT_EQ(whole.ns + "/" + whole.kind + "/" + whole.name + "/" + whole.uid,
            "ml/ReplicaSet/web-1/u1");
  EXPECT_EQ(whole.event + "@" + whole.version, "web-1.18@42");
  EXPECT_FALSE(whole.places.may_be_ours());
  for (const char* odd : {"{}", "[]", R"({"involvedObject": 1, "message": {}, "metadata": 2})"}) {
    EXPECT_TRUE(read(odd).event.empty()) << odd;
  }
}

TEST(Refusals, TheLatestTimeOfAnEventIsItsTime) {
  const auto time = [](const char* text) { return time_of_event(nlohmann::json::parse(text)); };
  EXPECT_EQ(time(R"({"lastTimestamp": null, "eventTime": "2026-11-01T10:00:00.000000Z",
      "series": {"lastObservedTime": "2026-11-01T10:00:05.000000Z"}})"),
            *parse_time("2026-11-01T10:00:05Z"));
  for (const char* odd : {"{}", "[]", R"({"lastTimestamp": 1, "series": 2})"}) {
    EXPECT_FALSE(time(odd)) << odd;
  }
}

TEST(Breaker, RemembersOnlyPodsThatHaveSomethingToTell) {
  World world;
  world.add("n1", Kind::kTrouble);
  world.look();
  world.remove_all();
  world.after(seconds(40));
  world.add("n1");
  world.look();
  EXPECT_TRUE(world.seen.pods.empty());
  EXPECT_EQ(world.verdict.again, Duration(0)) << "nothing to wait for";
}

TEST(Breaker, OnlyPodsThatComeBackAreReplaced) {
  for (const auto& [kind, replaceable] : {std::pair{"ReplicaSet", true},
                                          {"StatefulSet", true},
                                          {"DaemonSet", true},
                                          {"Job", false}}) {
    World world;
    World::Pod& pod = world.add("n1", Kind::kTrouble);
    pod.view.owner = std::make_shared<OwnerView>(OwnerView{"apps/v1", kind, "web", "o"});
    world.look();
    EXPECT_FALSE(world.seen.pods.at(0).replaceable) << "not yet";
    world.after(seconds(30));
    EXPECT_EQ(world.seen.pods.at(0).replaceable, replaceable) << kind;
  }
  World world;
  world.add("n1", Kind::kTrouble);
  world.look();
  world.after(seconds(30));
  EXPECT_FALSE(world.seen.pods.at(0).replaceable) << "nobody makes it again";
}

// Events of pods over some time.
int number(int from, int below) { return *rc::gen::inRange(from, below); }
constexpr Kind kKinds[] = {Kind::kNone, Kind::kPast, Kind::kWaits, Kind::kLoads, Kind::kTrouble};

RC_GTEST_PROP(BreakerProperties, AnOddPodAmongManyNeverOpensIt, ()) {
  World world;
  world.nodes = static_cast<size_t>(number(1, 5));
  const auto node = [&] { return "n" + std::to_string(number(0, static_cast<int>(world.nodes))); };
  for (int i = 0; i < number(10, 40); ++i) world.add(node());
  World::Pod* odd = &world.add(node(), Kind::kTrouble);
  for (int step = 0; step < 60; ++step) {
    switch (number(0, 4)) {
      case 0:  // its owner makes it again, beside another that starts: as in any rollout
        world.remove(*odd);
        for (int i = 0; i < 5; ++i) world.add(node());
        odd = &world.add(node());
        World::set(*odd, kKinds[number(0, 5)]);
        break;
      case 1:
        World::set(*odd, kKinds[number(0, 5)]);
        break;
      default:
        break;
    }
    RC_ASSERT(!world.after(seconds(number(1, 600))).state.open);
  }
}

RC_GTEST_PROP(BreakerProperties, OneNodeAloneNeverOpensItWhileOthersStart, ()) {
  World world;
  const int bad = number(1, 20);
  for (int i = 0; i < bad; ++i) world.add("bad", Kind::kTrouble);
  for (int step = 0; step < 40; ++step) {
    world.add("good" + std::to_string(number(0, 3)));
    if (number(0, 2) == 0) world.add("bad", Kind::kTrouble);
    RC_ASSERT(!world.after(seconds(number(1, 300))).state.open);
  }
}

// For any history of pods: openings are ever further apart, it closes again, and it is checked
// again whenever time alone can change it.
RC_GTEST_PROP(BreakerProperties, ItNeverFlapsAndNeverStaysOpenForEver, ()) {
  World world;
  world.nodes = static_cast<size_t>(number(1, 4));
  std::list<World::Pod*> pods;
  std::optional<WallTime> opened, asked;
  int openings = 0;
  for (int step = 0; step < 150; ++step) {
    if (pods.size() < 6) {
      pods.push_back(&world.add("n" + std::to_string(number(0, static_cast<int>(world.nodes)))));
    }
    for (World::Pod* pod : pods) {
      if (number(0, 3) == 0) World::set(*pod, kKinds[number(0, 5)]);
    }
    if (number(0, 4) == 0) {
      world.remove(*pods.front());
      pods.pop_front();
    }
    if (number(0, 10) == 0) world.hand_over();
    Probe probe = Probe::kNone;
    if (asked) probe = number(0, 2) == 0 ? Probe::kSucceeded : Probe::kFailed;
    const bool was_open = world.verdict.state.open;
    world.after(seconds(number(1, 120)), probe);
    asked = world.verdict.probe ? std::optional(world.now) : std::nullopt;
    const BreakerState& state = world.verdict.state;
    if (state.open && !was_open) {
      if (opened) {
        const Duration apart = world.now - *opened;
        const Duration least = pause_of({.openings = state.openings - 1}, world.rules);
        RC_ASSERT(apart >= (state.openings > 1 ? least : Duration(world.rules.pause)));
      }
      opened = world.now;
      ++openings;
    }
    if (state.open) RC_ASSERT(world.verdict.probe || world.verdict.again > Duration(0));
    RC_ASSERT(world.verdict.stuck.size() <= pods.size());
  }
  world.remove_all();
  for (int i = 0; i < 100 && world.verdict.state.open; ++i) {
    world.after(world.verdict.again, world.verdict.probe ? Probe::kSucceeded : Probe::kNone);
  }
  RC_ASSERT(!world.verdict.state.open);
}

}  // namespace
}  // namespace compilecache::controller
