#include <gtest/gtest.h>

#include <algorithm>

#include "operator/caches/conditions.hpp"
#include "tests/unit/operator/control_fixture.hpp"

// What of its pods and its storage a CompileCache's status tells, and how often it is written.

namespace compilecache::controller {
namespace {

using nlohmann::json;
using std::chrono::hours;
using std::chrono::seconds;
using test::ControlTest;
using test::kArchives;
using test::kCaches;
using test::kJobs;

TEST_F(ControlTest, AVolumeThatIsCreatedAgainUnderItsNameIsReadAgain) {
  constexpr char kVolumes[] = "/api/v1/persistentvolumes";
  const json zonal = {{"metadata", {{"name", "pv-1"}}},
                      {"spec", {{"nodeAffinity", {{"required", {{"nodeSelectorTerms", {}}}}}}}}};
  server.put(kVolumes, zonal);
  put_claim();
  reconcile_and_see();
  EXPECT_EQ(condition("StorageReady").at("reason"), "VolumeHasNodeAffinity");
  server.put(kVolumes, {{"metadata", {{"name", "pv-1"}}}});
  clock.advance(std::chrono::minutes(2));
  reconcile_and_see();
  EXPECT_EQ(condition("StorageReady").at("reason"), "Preparing");
  // The claim gets the news of its lost volume first.
  server.put(kVolumes, zonal);
  put_claim("Lost");
  reconcile_and_see();
  put_claim();
  reconcile_and_see();
  EXPECT_EQ(condition("StorageReady").at("reason"), "VolumeHasNodeAffinity");
}

TEST_F(ControlTest, AMissingClaimIsToldInConditionsAndAnEvent) {
  reconcile_and_see();
  EXPECT_EQ(condition("Ready").at("reason"), "ClaimNotFound");
  EXPECT_EQ(condition("Stalled").at("status"), "True");
  ASSERT_EQ(events.records.size(), 1u);
  EXPECT_EQ(events.records[0].reason, "ClaimNotFound");
  EXPECT_EQ(events.records[0].type, kube::EventType::kWarning);
  EXPECT_TRUE(all(kJobs).empty());
}

TEST_F(ControlTest, PodsThatAreNeverHeardOfAreToldInAConditionAndOneEvent) {
  put_claim();
  reconcile_and_see();
  report();
  heard.begin();
  for (const char* name : {"web-1", "web-2", "web-3"}) {
    PodView pod{.ns = "ml", .name = name, .uid = name, .cache = "transformer"};
    pod.injection = std::make_shared<const api::InjectionStatus>(
        api::InjectionStatus{.init_containers = {api::kLoaderContainer, api::kSaverContainer}});
    pod.containers = std::make_shared<const std::vector<ContainerView>>(
        1, ContainerView{.name = api::kLoaderContainer, .ended_reason = "Completed"});
    heard.seen(pod, clock.monotonic());
  }
  const auto first = reconcile();
  ASSERT_TRUE(first);
  EXPECT_LE(first->again_after, settings.agent.unheard_after) << "they are looked at again in time";
  reconcile_and_see();
  EXPECT_EQ(condition("PodsUnheard").at("status"), "False");
  EXPECT_EQ(condition("Ready").at("status"), "True");
  clock.advance(settings.agent.unheard_after);
  for (int i = 0; i < 3; ++i) reconcile_and_see();
  EXPECT_EQ(condition("PodsUnheard").at("reason"), "NotAsked");
  EXPECT_EQ(condition("Ready").at("status"), "False");
  EXPECT_NE(condition("Ready").at("message").get<std::string>().find("web-1"), std::string::npos);
  EXPECT_EQ(std::count_if(events.records.begin(), events.records.end(),
                          [](const auto& event) {
                            return event.reason == "PodsUnheard" &&
                                   event.type == kube::EventType::kWarning;
                          }),
            2)
      << "of the condition and of Ready";
  heard.spoke({.ns = "ml", .name = "web-4", .uid = "web-4", .cache = "transformer"});
  for (const char* name : {"web-1", "web-2", "web-3"}) heard.gone("ml", name);
  reconcile_and_see();
  EXPECT_EQ(condition("PodsUnheard").at("status"), "False");
  EXPECT_EQ(condition("Ready").at("status"), "True");
}

TEST_F(ControlTest, AConflictThatStaysIsTriedEverMoreRarely) {
  put_claim();
  json stale = server.objects(kCaches).at("ml/transformer");
  stale["metadata"]["resourceVersion"] = "1";
  json other = stale;
  other["metadata"].erase("resourceVersion");
  other["metadata"]["annotations"] = {{"by", "another"}};
  server.put(kCaches, other);
  see_cache(stale);  // and stays so: the watch is slow
  Duration last{0};
  for (int i = 0; i < 12; ++i) {
    const auto done = reconcile();
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_GE(done->again_after, last);
    last = done->again_after;
  }
  EXPECT_EQ(last, seconds(30));
  EXPECT_FALSE(server.objects(kCaches).at("ml/transformer").contains("status"))
      << "nothing is written over what another has written";
  see_cache(server.objects(kCaches).at("ml/transformer"));
  ASSERT_TRUE(reconcile());
  EXPECT_EQ(condition("Reconciling").at("status"), "True");
}

TEST_F(ControlTest, TheSeriesOfADeletedCompileCacheGo) {
  metrics.save("ml", "transformer", api::SaveOutcome::kCommitted);
  metrics.save("ml", "other", api::SaveOutcome::kCommitted);
  metrics.load({.ns = "ml",
                .cache = "transformer",
                .gpu_product = "H100",
                .outcome = api::LoadOutcome::kExact});
  reconcile_and_see();
  ASSERT_NE(metrics.text().find("cache=\"transformer\""), std::string::npos);
  stores.caches.erase("ml/transformer", nullptr);
  ASSERT_TRUE(reconcile());
  EXPECT_EQ(metrics.text().find("cache=\"transformer\""), std::string::npos) << metrics.text();
  EXPECT_NE(metrics.text().find("cache=\"other\""), std::string::npos);
  metrics.save("ml", "transformer", api::SaveOutcome::kCommitted);
  EXPECT_NE(metrics.text().find("cache=\"transformer\""), std::string::npos) << "made anew";
}

TEST_F(ControlTest, AReplicaThatDoesNotLeadChangesNothing) {
  put_claim();
  put_archive("old", hours(900));
  put_archive("new", hours(1));
  leading = false;
  ASSERT_TRUE(reconcile());
  EXPECT_EQ(all(kArchives).size(), 2u);
  EXPECT_EQ(writes(), 0u);
  leading = true;
  on_judging = [this] { leading = false; };  // deposed in the middle
  (void)reconcile();
  EXPECT_EQ(all(kArchives).size(), 2u);
  leading = true;
  on_judging = [] {};
  ASSERT_TRUE(reconcile());
  EXPECT_EQ(all(kArchives).size(), 1u);
}

TEST_F(ControlTest, ACompileCacheThatIsMadeAnewBeginsItsCountsAnew) {
  put_claim();
  reconcile_and_see();
  const auto unchanged = [&] {
    clock.advance(settings.status_interval);
    reconcile_and_see();
    const json status = server.objects(kCaches).at("ml/transformer").at("status");
    return status.value("/saves/unchanged"_json_pointer, 0);
  };
  stats.saved("ml/transformer", api::SaveOutcome::kUnchanged, "");
  EXPECT_EQ(unchanged(), 1);
  server.erase(kCaches, "ml", "transformer");
  put_cache({});
  EXPECT_EQ(unchanged(), 0) << "the one before was deleted unseen";
}

TEST_F(ControlTest, AThousandReportsAreOneWrite) {
  put_claim();
  reconcile_and_see();
  const size_t before = writes();
  for (int i = 0; i < 1000; ++i) {
    stats.saved("ml/transformer", api::SaveOutcome::kUnchanged, "");
    const auto done = reconcile();
    ASSERT_TRUE(done);
    see_cache(server.objects(kCaches).at("ml/transformer"));
    EXPECT_GE(done->again_after.count(), 0);
  }
  EXPECT_EQ(writes() - before, 1u);
  clock.advance(settings.status_interval);
  ASSERT_TRUE(reconcile());
  EXPECT_EQ(writes() - before, 2u);
  EXPECT_EQ(server.objects(kCaches).at("ml/transformer").at("status").at("saves").at("unchanged"),
            1000);
}

TEST_F(ControlTest, ANewLeaderCountsOnAlsoWhenItsStoreLagsBehind) {
  put_claim();
  json last = server.objects(kCaches).at("ml/transformer");
  last["status"]["loads"]["exact"] = 7;  // written by the previous leader; our store does not know
  server.put(kCaches, last);
  ASSERT_TRUE(controller.take_over());
  stats.loaded("ml/transformer",
               {.pod = "web-1", .pod_uid = "u-1", .load = api::LoadOutcome::kExact});
  reconcile();
  see_cache(server.objects(kCaches).at("ml/transformer"));
  clock.advance(settings.status_interval);
  ASSERT_TRUE(reconcile());
  EXPECT_EQ(server.objects(kCaches).at("ml/transformer").at("status").at("loads").at("exact"), 8);
}

TEST_F(ControlTest, NothingIsWrittenWhenNothingChanged) {
  reconcile_and_see();
  const size_t before = writes();
  reconcile_and_see();
  reconcile_and_see();
  EXPECT_EQ(writes(), before);
}

TEST_F(ControlTest, ASpecThatCannotBeReadIsToldAndItsCountersStay) {
  json object = server.objects(kCaches).at("ml/transformer");
  object["spec"]["load"]["timeout"] = "soon";
  object["status"]["loads"]["exact"] = 7;
  object = server.put(kCaches, object);
  EXPECT_FALSE(invalid.parse(object));
  ASSERT_TRUE(reconcile());
  EXPECT_NE(condition("Ready").at("message").get<std::string>().find("spec.load.timeout"),
            std::string::npos);
  EXPECT_EQ(condition("Stalled").at("status"), "True");
  EXPECT_EQ(server.objects(kCaches).at("ml/transformer").at("status").at("loads").at("exact"), 7);
}

}  // namespace
}  // namespace compilecache::controller
