#include "operator/breaker/breaker_keeper.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <set>

#include "api/injected_place.hpp"
#include "api/names.hpp"
#include "base/time_format.hpp"
#include "kube/cpprest_transport.hpp"
#include "operator/caches/conditions.hpp"
#include "tests/support/fake_apiserver.hpp"

// The keeper's reads of the API server before it pauses injection, and the pods that it evicts
// then.

namespace compilecache::controller {
namespace {

using nlohmann::json;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr char kEvents[] = "/api/v1/events";

kube::Client client_of(const testing::FakeApiServer& server) {
  kube::Config config;
  config.server = server.url();
  return kube::Client(*kube::make_transport(config));
}

struct Recorded : kube::EventSink {
  void record(const kube::EventRecord& record) override { reasons.push_back(record.reason); }
  std::vector<std::string> reasons;
};

class BreakerKeeperTest : public ::testing::Test {
 protected:
  BreakerKeeperTest() {
    cache.metadata.ns = "ml";
    cache.metadata.name = "transformer";
    cache.spec.storage = {.claim_name = "caches"};
    storage.claim =
        ClaimView{.ns = "ml", .name = "caches", .phase = "Bound", .volume_name = "pv-1"};
    // It has closed long ago, so that a status without a word about it is none.
    cache.status.breaker.state = "Closed";
    cache.status.breaker.since = format_time(clock.wall() - hours(1));
    add_node("n1");
  }

  void add_node(const std::string& name) {
    stores.nodes.upsert(name, std::make_shared<const NodeView>(NodeView{.name = name}));
  }
  // Its loader waits for that.
  void add_pod(const std::string& name, const std::string& waits_for) {
    PodView pod{.ns = "ml",
                .name = name,
                .uid = "uid-" + name,
                .node = "n1",
                .phase = "Pending",
                .created = format_time(clock.wall() + apart),
                .cache = "transformer"};
    auto injection = std::make_shared<api::InjectionStatus>();
    injection->init_containers = {api::kLoaderContainer};
    pod.injection = injection;
    pod.owner = std::make_shared<const OwnerView>(OwnerView{"apps/v1", "ReplicaSet", "web", "r"});
    pod.containers = std::make_shared<const std::vector<ContainerView>>(
        1, ContainerView{.name = api::kLoaderContainer, .init = true, .waiting_reason = waits_for});
    stores.pods.upsert("ml/" + name, std::make_shared<const PodView>(pod));
  }
  // Its application runs.
  void start_pod(const std::string& name) {
    PodView pod = *stores.pods.get("ml/" + name);
    pod.phase = "Running";
    pod.containers = std::make_shared<const std::vector<ContainerView>>(
        1, ContainerView{.name = "app", .running = true});
    stores.pods.upsert("ml/" + name, std::make_shared<const PodView>(pod));
  }
  // As the kubelet tells of the pod "a", again each time.
  void tell_mount(const std::string& volume) {
    server.put(kEvents,
               {{"metadata", {{"name", "mount"}, {"namespace", "ml"}}},
                {"involvedObject", {{"kind", "Pod"}, {"uid", "uid-a"}}},
                {"reason", "FailedMount"},
                {"lastTimestamp", format_time(clock.wall() + apart)},
                {"message", "MountVolume.SetUp failed for volume \"" + volume + "\" : no"}});
  }
  // As the webhook does, of pods with the owner of those here.
  void tell_injected(size_t first) {
    server.put(kEvents, {{"metadata", {{"name", "injected"}, {"namespace", "ml"}}},
                         {"involvedObject", {{"kind", "ReplicaSet"}, {"uid", "r"}}},
                         {"reason", "Injected"},
                         {"message", api::tell_injected(first)}});
  }
  void tell_refusal(const std::string& message, const std::string& event = "refused",
                    const std::string& owner = "r", const std::string& ns = "ml") {
    const Refusal refusal = *parse_refusal(
        {{"metadata", {{"name", event}, {"resourceVersion", std::to_string(++refusals)}}},
         {"involvedObject",
          {{"namespace", ns}, {"kind", "ReplicaSet"}, {"name", "web"}, {"uid", owner}}},
         {"message", message}});
    stores.refusals.upsert(ns + "/" + event, std::make_shared<const Refusal>(refusal));
  }
  // How often the API server was asked for Events so far.
  [[nodiscard]] size_t event_lists() const {
    size_t count = 0;
    for (const auto& request : server.requests()) {
      if (request.is_list() && request.path.ends_with("/events")) ++count;
    }
    return count;
  }

  // As the controller does.
  void evaluate(BreakerKeeper& by) {
    const BreakerSight sight = by.gather(cache, storage);
    const BreakerVerdict verdict =
        judge_breaker(sight.before, sight.input, settings.breaker, clock.wall());
    status = cache.status;
    write_breaker(verdict.state, cache.metadata.generation, format_time(clock.wall()), status);
    status.stuck_pods = verdict.stuck;
    by.act(cache, sight, verdict);
  }
  bool pauses(Duration later = Duration(0)) {
    clock.advance(later);
    evaluate(keeper);
    return status.breaker.state == "Open";
  }
  // Which the controller sees at once.
  void write_status() {
    cache.status = status;
    pauses();
  }
  // Two pods, and a status that says that injection is paused.
  void pause() {
    add_pod("a", "ErrImagePull");
    add_pod("b", "ErrImagePull");
    pauses();
    ASSERT_TRUE(pauses(seconds(30)));
  }
  // The uids that the evictions were for.
  [[nodiscard]] std::vector<std::string> evicted() const {
    std::vector<std::string> uids;
    for (const auto& request : server.requests()) {
      if (request.method != "POST" || !request.path.ends_with("/eviction")) continue;
      const json eviction = json::parse(request.body);
      uids.push_back(eviction.value("/deleteOptions/preconditions/uid"_json_pointer, "any"));
    }
    return uids;
  }

  testing::FakeApiServer server;
  FakeClock clock;
  hours apart{0};  // the cluster's clocks from this one
  int refusals = 0;
  Settings settings;
  ClusterStores stores;
  ClusterView view{stores};
  PodLedger pods;
  SweepJobs jobs;
  Metrics metrics;
  Recorded events;
  kube::Client client = client_of(server);
  Sweeper sweeper{client,
                  settings,
                  {.image = "image:1", .agent_ca = [] { return "PEM"; }},
                  view,
                  jobs,
                  metrics,
                  clock,
                  seeded_random(1)};
  BreakerKeeper keeper{client, settings, view, pods, sweeper, events, true, clock};
  api::CompileCache cache;
  StorageFacts storage;
  api::CompileCacheStatus status;
};

TEST_F(BreakerKeeperTest, NoPodIsReplacedBeforeTheOthersCanKnowThatInjectionIsPaused) {
  pause();
  pauses(minutes(1));
  EXPECT_TRUE(evicted().empty()) << "what comes instead would be injected";
  write_status();
  pauses(seconds(2));
  EXPECT_TRUE(evicted().empty()) << "another replica's webhook may not know yet";
  pauses(seconds(1));
  EXPECT_EQ(evicted().size(), 1U);
}

TEST_F(BreakerKeeperTest, LookingChangesNothingHoweverOften) {
  pause();
  write_status();
  clock.advance(seconds(60));
  for (int i = 0; i < 3; ++i) {
    const BreakerSight sight = keeper.gather(cache, storage);
    EXPECT_TRUE(sight.before.open);
    EXPECT_TRUE(judge_breaker(sight.before, sight.input, settings.breaker, clock.wall()).probe);
    EXPECT_EQ(sight.input.probe, Probe::kNone) << "none is asked for by looking";
  }
  EXPECT_TRUE(evicted().empty());
  EXPECT_TRUE(events.reasons.empty());
  pauses();
  EXPECT_EQ(evicted().size(), 1U);
  EXPECT_EQ(keeper.gather(cache, storage).input.probe, Probe::kRuns);
}

TEST_F(BreakerKeeperTest, StuckPodsAreReplacedOneByOneAndOnceEach) {
  pause();
  write_status();
  pauses(seconds(3));
  for (int i = 0; i < 5; ++i) pauses(seconds(1));
  EXPECT_EQ(evicted().size(), 1U) << "one in six seconds";
  for (int i = 0; i < 5; ++i) pauses(settings.breaker.replace_interval);
  const std::vector<std::string> uids = evicted();
  EXPECT_EQ(uids.size(), 2U);
  EXPECT_EQ(std::set<std::string>(uids.begin(), uids.end()),
            (std::set<std::string>{"uid-a", "uid-b"}))
      << "not another pod of that name";
  EXPECT_EQ(std::count(events.reasons.begin(), events.reasons.end(), "StuckPodReplaced"), 2);
}

TEST_F(BreakerKeeperTest, AnEvictionThatIsRefusedIsTriedAgainAMinuteLater) {
  pause();
  write_status();
  server.script([](const testing::FakeRequest& request, testing::FakeConnection& connection) {
    if (!request.path.ends_with("/eviction")) return false;
    connection.reply(429, testing::fake_status(429, "TooManyRequests", "a disruption budget"));
    return true;
  });
  pauses(seconds(3));
  pauses(seconds(30));
  EXPECT_EQ(evicted().size(), 1U);
  pauses(seconds(60));
  EXPECT_EQ(evicted().size(), 2U);
}

// Nothing that the cluster's machines say of time is compared with our clock.
class ClocksOfTheCluster : public BreakerKeeperTest, public ::testing::WithParamInterface<hours> {
 protected:
  ClocksOfTheCluster() { apart = GetParam(); }
};

TEST_P(ClocksOfTheCluster, AVolumeThatIsNotMountedPauses) {
  add_pod("a", "ContainerCreating");
  tell_mount("pv-1");
  pauses();
  EXPECT_TRUE(pauses(minutes(1)));
}

TEST_P(ClocksOfTheCluster, ARefusalPausesOnce) {
  const std::string ours = "container compilecache-save must not run as root";
  add_pod("a", "ErrImagePull");
  pauses();
  tell_refusal(ours);
  ASSERT_TRUE(pauses(seconds(1)));
  start_pod("a");
  ASSERT_TRUE(pauses(seconds(10)));
  tell_refusal(ours);
  ASSERT_TRUE(pauses(seconds(20)));
  ASSERT_FALSE(pauses(minutes(1))) << "the pod has started";
  EXPECT_FALSE(pauses(seconds(1))) << "that was while it was paused";
  tell_refusal(ours);
  EXPECT_TRUE(pauses(seconds(1)));
}

INSTANTIATE_TEST_SUITE_P(AheadAndBehind, ClocksOfTheCluster, ::testing::Values(hours(2), hours(-2)),
                         [](const auto& apart) { return apart.index == 0 ? "Ahead" : "Behind"; });

class WithoutReplacing : public BreakerKeeperTest {
 protected:
  BreakerKeeper patient{client, settings, view, pods, sweeper, events, false, clock};
};

TEST_F(WithoutReplacing, NobodyIsEvicted) {
  pause();
  write_status();
  for (int i = 0; i < 5; ++i) {
    clock.advance(seconds(10));
    evaluate(patient);
  }
  EXPECT_TRUE(evicted().empty());
}

TEST_F(BreakerKeeperTest, OnlyWhatTheKubeletSaysNowOfOurVolumePauses) {
  tell_mount("pv-1");
  add_pod("b", "ContainerCreating");
  pauses();
  EXPECT_FALSE(pauses(minutes(2))) << "of another pod";
  add_pod("a", "ContainerCreating");
  pauses(minutes(4));
  EXPECT_FALSE(pauses(minutes(2))) << "that was before";
  tell_mount("pv-of-the-app");
  EXPECT_FALSE(pauses(minutes(3))) << "its own affair";
  tell_mount("pv-1");
  EXPECT_TRUE(pauses(minutes(3)));
  const auto* paused = api::find_condition(status.conditions, api::kInjectionPausedCondition);
  ASSERT_NE(paused, nullptr);
  EXPECT_EQ(paused->reason, "ClaimNotMounted");
}

TEST_F(BreakerKeeperTest, OnlyAFreshRefusalOfOurContainersPauses) {
  const std::string ours = "container compilecache-save must not run as root";
  tell_refusal(ours);
  EXPECT_FALSE(pauses()) << "it was there before we looked";
  EXPECT_FALSE(pauses(minutes(1)));
  tell_refusal("exceeded quota: pods");
  EXPECT_FALSE(pauses());
  tell_refusal(ours);
  EXPECT_TRUE(pauses());
  EXPECT_NE(api::find_condition(status.conditions, api::kInjectionPausedCondition)
                ->message.find("ReplicaSet"),
            std::string::npos);
}

TEST_F(BreakerKeeperTest, ARefusalIsComparedWithWhereOursAre) {
  const auto refused = [](int place) {
    return "spec.initContainers[" + std::to_string(place) + "].securityContext.runAsUser: no";
  };
  pauses();
  tell_refusal(refused(1));
  EXPECT_FALSE(pauses()) << "its pods were never injected";
  tell_injected(3);
  for (const int place : {0, 2, 5}) {
    tell_refusal(refused(place));
    EXPECT_FALSE(pauses(seconds(10))) << "somebody else's: " << place;
  }
  tell_refusal(refused(4));
  EXPECT_TRUE(pauses());
}

TEST_F(BreakerKeeperTest, ARefusalThatIsOlderThanOurEventPausesAllTheSame) {
  pauses();
  tell_refusal("spec.initContainers[1].image: no");
  EXPECT_FALSE(pauses());
  const BreakerSight sight = keeper.gather(cache, storage);
  EXPECT_GT(sight.again, Duration(0)) << "to be looked at again";
  tell_injected(0);
  EXPECT_TRUE(pauses(sight.again));
}

// Its author knew the uid of an injected pod's owner, and may write Events in a namespace of his
// own.
TEST_F(BreakerKeeperTest, WhatAnotherNamespaceSaysOfAnOwnerCountsThereAlone) {
  tell_injected(3);
  api::CompileCache others = cache;
  others.metadata.ns = "theirs";
  const std::string refused = "spec.initContainers[0].image: not allowed";
  keeper.gather(others, storage);
  pauses();
  server.put(kEvents, {{"metadata", {{"name", "forged"}, {"namespace", "theirs"}}},
                       {"involvedObject", {{"kind", "ReplicaSet"}, {"uid", "r"}}},
                       {"reason", "Injected"},
                       {"message", api::tell_injected(0)}});
  tell_refusal(refused, "theirs", "r", "theirs");
  EXPECT_TRUE(keeper.gather(others, storage).input.refused);
  tell_refusal(refused);
  EXPECT_FALSE(pauses());
}

// Pods that are not admitted never start; a pause that was not needed costs a cold start.
TEST_F(BreakerKeeperTest, ARefusalThatMayBeOursPausesWhereEventsStayUnreadable) {
  const auto refuse_to_read = [&](int times) {
    for (; times > 0; --times) {
      server.script([](const auto& request, auto& connection) {
        if (!request.is_list() || !request.path.ends_with("/events")) return false;
        connection.reply(403, "{}");
        return true;
      });
    }
  };
  pauses();
  refuse_to_read(4);
  tell_refusal("spec.initContainers[0].image: not allowed", "one");
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(pauses(seconds(1))) << "its pods were never injected";
  EXPECT_EQ(server.scripts_left(), 0U);

  refuse_to_read(100);
  tell_refusal("spec.initContainers[0].image: not allowed", "another", "other");
  for (int i = 0; i < 30; ++i) EXPECT_FALSE(pauses(seconds(1))) << "they may become readable";
  bool paused = false;
  for (int i = 0; i < 70 && !paused; ++i) paused = pauses(seconds(1));
  EXPECT_TRUE(paused);
}

// A policy that refuses a neighbour's pods does so for hours.
TEST_F(BreakerKeeperTest, RefusalsOfOthersCostFewRequests) {
  pauses();
  const size_t before = event_lists();
  for (int i = 0; i < 100; ++i) {
    tell_refusal("spec.initContainers[0].image: not allowed");
    EXPECT_FALSE(pauses(milliseconds(500)));
  }
  EXPECT_LE(event_lists() - before, 6U);
}

TEST_F(BreakerKeeperTest, ManyOwnersAreAskedForAFewAtATime) {
  pauses();
  for (int i = 0; i < 100; ++i) {
    const std::string number = std::to_string(i);
    tell_refusal("spec.initContainers[0].image: not allowed", "e" + number, "owner-" + number);
  }
  const size_t before = event_lists();
  EXPECT_FALSE(pauses());
  EXPECT_LE(event_lists() - before, 8U);
  tell_injected(0);
  tell_refusal("spec.initContainers[1].image: no", "z");
  bool paused = false;
  for (int i = 0; i < 30 && !paused; ++i) paused = pauses(seconds(1));
  EXPECT_TRUE(paused);
}

TEST_F(BreakerKeeperTest, WhereOursAreTheFirstNothingIsSaidOfIt) {
  tell_injected(0);
  pauses();
  tell_refusal("spec.initContainers[2].image: no");
  EXPECT_FALSE(pauses());
  tell_refusal("spec.initContainers[1].image: no");
  EXPECT_TRUE(pauses());
}

}  // namespace
}  // namespace compilecache::controller
