#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/unit/operator/control_fixture.hpp"

// Which archives are deleted, and which stay.

namespace compilecache::controller {
namespace {

using nlohmann::json;
using std::chrono::hours;
using std::chrono::seconds;
using test::ControlTest;
using test::kArchives;
using test::kCaches;
using test::kJobs;

TEST_F(ControlTest, StaleArchivesAreDeletedAndASweepFollows) {
  put_claim();
  reconcile_and_see();
  report();
  put_archive("old", hours(900));
  put_archive("new", hours(1));
  for (const json& job : all(kJobs)) {
    server.erase(kJobs, "ml", job["metadata"]["name"]);
  }
  see_jobs();
  reconcile_and_see();
  ASSERT_EQ(all(kArchives).size(), 1u);
  EXPECT_EQ(all(kArchives)[0]["metadata"]["name"], "new");
  EXPECT_EQ(std::count_if(events.records.begin(), events.records.end(),
                          [](const auto& event) { return event.reason == "ArchiveCollected"; }),
            1);
  stores.archives.erase("ml/old", nullptr);
  reconcile_and_see();
  EXPECT_EQ(all(kJobs).size(), 1u) << "the blobs are swept before the interval is over";
  const json status = server.objects(kCaches).at("ml/transformer").at("status");
  EXPECT_EQ(status.at("archives"), 1);
  EXPECT_EQ(status.at("totalBytes"), 1000);
}

TEST_F(ControlTest, ArchivesOfACompileCacheThatIsGoneAreDeleted) {
  put_claim();
  json cache = server.objects(kCaches).at("ml/transformer");
  const auto put = [&](const char* name, const std::string& owner, const std::string& made) {
    json object{{"metadata",
                 {{"name", name}, {"namespace", "ml"}, {"creationTimestamp", made}, {"uid", name}}},
                {"spec", {{"cache", "transformer"}, {"key", {{"GPUProduct", name}}}}},
                {"status", {{"lastUsedTime", format_time(clock.wall())}}}};
    if (!owner.empty()) {
      object["metadata"]["ownerReferences"] = {{{"kind", "CompileCache"}, {"uid", owner}}};
    }
    object = server.put(kArchives, object);
    object["metadata"]["creationTimestamp"] = made;
    stores.archives.upsert(
        std::string("ml/") + name,
        std::make_shared<const api::CompileCacheArchive>(api::parse_archive(object).value()));
  };
  const auto left = [&] {
    std::set<std::string> names;
    for (const json& archive : all(kArchives)) names.insert(archive["metadata"]["name"]);
    return names;
  };
  put("orphan", "", "2026-01-01T00:00:00Z");
  put("of-the-one-before", cache["metadata"]["uid"], "2026-01-01T00:00:00Z");
  // By an API server whose clock is ahead, or restored from a backup.
  put("of-it-too", cache["metadata"]["uid"], "2026-01-04T00:00:00Z");
  cache["metadata"].erase("resourceVersion");
  server.erase(kCaches, "ml", "transformer");
  cache = server.put(kCaches, cache);
  put("mine", cache["metadata"]["uid"], "2026-01-03T00:00:00Z");
  ASSERT_TRUE(reconcile());
  EXPECT_EQ(left().size(), 4u) << "of the CompileCache that we see no more is there";
  see_cache(cache);
  ASSERT_TRUE(reconcile());
  EXPECT_EQ(left(), std::set<std::string>{"mine"});
}

TEST_F(ControlTest, AnArchiveIsOfTheCompileCacheThatItsSpecNamesWhateverItsLabels) {
  const auto put = [&](const char* name, const char* cache, const char* label) {
    server.put(kArchives,
               {{"metadata",
                 {{"name", name}, {"namespace", "ml"}, {"labels", {{api::kCacheLabel, label}}}}},
                {"spec", {{"cache", cache}, {"key", {{"GPUProduct", "H100"}}}}}});
  };
  put("relabelled", "transformer", "another");
  put("anothers", "another", "transformer");
  const auto archives = archive_client.list("ml", "transformer");
  ASSERT_TRUE(archives);
  ASSERT_EQ(archives->size(), 1u);
  EXPECT_EQ(archives->at(0).metadata.name, "relabelled");
}

TEST_F(ControlTest, AnArchiveThatStaysInUseIsNotLookedAtEachSecond) {
  put_claim();
  reconcile_and_see();
  put_archive("old", hours(900));
  PodView pod{.ns = "ml", .name = "web", .uid = "u-1", .phase = "Running", .cache = "transformer"};
  stores.pods.upsert("ml/web", std::make_shared<const PodView>(pod));
  stats.loaded(
      "ml/transformer",
      {.pod = "web", .pod_uid = "u-1", .archive = "old", .load = api::LoadOutcome::kExact});
  report();
  for (const json& job : all(kJobs)) server.erase(kJobs, "ml", job["metadata"]["name"]);
  see_jobs();
  reconcile_and_see();
  const auto done = reconcile();
  ASSERT_TRUE(done);
  EXPECT_EQ(all(kArchives).size(), 1u);
  EXPECT_GT(done->again_after, seconds(60));
}

// Each of the signs alone keeps an archive that nobody has used for long.
TEST_F(ControlTest, WhatIsInUseStays) {
  put_claim();
  const auto left = [&](const std::string& why) {
    SCOPED_TRACE(why);
    put_archive("transformer-new", hours(1));
    reconcile();
    stores.archives.erase("ml/transformer-new", nullptr);
    return server.objects(kArchives).contains("ml/" + old_one());
  };
  const auto run_pod = [&](const std::string& phase,
                           std::optional<std::vector<std::string>> used_claims = std::nullopt) {
    auto injection = std::make_shared<api::InjectionStatus>();
    injection->key_basis = {
        .parts = {"GPUProduct"}, .gpu_resource = "nvidia.com/gpu", .gpu_count = 1};
    injection->key_basis.claims = std::move(used_claims);
    PodView pod{.ns = "ml", .name = "web", .uid = "u-1", .node = "n1", .phase = phase};
    pod.cache = "transformer";
    pod.injection = injection;
    stores.pods.upsert("ml/web", std::make_shared<const PodView>(pod));
  };
  put_archive(old_one(), hours(900));
  saving = old_one();
  EXPECT_TRUE(left("it is being saved"));
  saving.clear();

  run_pod("Running");
  stats.loaded(
      "ml/transformer",
      {.pod = "web", .pod_uid = "u-1", .archive = old_one(), .load = api::LoadOutcome::kExact});
  EXPECT_TRUE(left("a pod has loaded it"));
  api::CompileCache cache = *stores.caches.get("ml/transformer");
  stats.fill("ml/transformer", cache.status);
  stats.forget("ml/transformer");
  stores.caches.upsert("ml/transformer", std::make_shared<const api::CompileCache>(cache));
  EXPECT_TRUE(left("as a previous leader has recorded"));
  cache.status.recent = {};
  stores.caches.upsert("ml/transformer", std::make_shared<const api::CompileCache>(cache));
  stats.forget("ml/transformer");
  NodeView node{.name = "n1"};
  node.facts.gpu_product = "H100";
  stores.nodes.upsert("n1", std::make_shared<const NodeView>(node));
  EXPECT_TRUE(left("a pod of its key runs"));

  run_pod("Running", std::vector<std::string>{"gpu"});
  devices = api::DeviceFacts{.product = "H100", .count = 1};
  EXPECT_TRUE(left("a pod of its key runs whose GPU a claim gave it"));
  devices = fail(ErrorCode::kUnavailable, "the API server does not answer");
  devices.error().reason = api::kDevicesUnreadable;
  EXPECT_TRUE(left("it may be this pod's"));
  devices = api::DeviceFacts{.product = "H100", .count = 1};

  run_pod("Succeeded");
  EXPECT_FALSE(left("nothing")) << "the pod has ended";
}

// Such as of a leader that was deposed: a pod has loaded the archive meanwhile.
TEST_F(ControlTest, AnArchiveThatHasChangedSinceItWasSeenIsNotDeleted) {
  put_claim();
  put_archive("old", hours(900));
  put_archive("new", hours(1));
  json used = server.objects(kArchives).at("ml/old");
  used["metadata"].erase("resourceVersion");
  used["status"]["lastUsedTime"] = format_time(clock.wall());
  server.put(kArchives, used);
  ASSERT_TRUE(reconcile());
  EXPECT_EQ(all(kArchives).size(), 2u);
}

TEST_F(ControlTest, AnArchivesStatusIsWrittenOverNothingThatAnotherWrote) {
  put_archive("one", hours(1));
  const auto seen = archive_client.get("ml", "one");
  ASSERT_TRUE(seen);
  api::CompileCacheArchive first = *seen, late = *seen;
  first.lock.fence = 2;
  late.lock.fence = 1;
  ASSERT_TRUE(archive_client.update_status(first));
  const auto refused = archive_client.update_status(late);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kConflict);
  EXPECT_EQ(archive_client.get("ml", "one")->lock.fence, 2);
}

TEST_F(ControlTest, NothingIsDecidedWhileAnArchiveCannotBeRead) {
  put_archive("one", hours(1));
  json odd = server.objects(kArchives).at("ml/one");
  odd["metadata"]["name"] = "odd";
  odd["metadata"].erase("resourceVersion");
  odd["spec"].erase("cache");
  server.put(kArchives, odd);
  EXPECT_FALSE(archive_client.list("ml", "transformer")) << "it may name blobs";
}

TEST_F(ControlTest, WhatARunningPodLoadedStays) {
  a_pod_runs_with_an_old_archive();
  reconcile_and_see();
  EXPECT_EQ(all(kArchives).size(), 2u);
}

// Longer ago than the status tells of.
TEST_F(ControlTest, WhatAPodLoadedLongAgoStaysWhileItRuns) {
  a_pod_runs_with_an_old_archive();
  for (int i = 0; i < 100; ++i) {
    stats.loaded("ml/transformer", {.pod = "other",
                                    .pod_uid = "other-" + std::to_string(i),
                                    .archive = "new",
                                    .load = api::LoadOutcome::kExact});
  }
  reconcile_and_see();
  EXPECT_EQ(all(kArchives).size(), 2u);
}

TEST_F(ControlTest, WhatAFailedFirstSaveLeavesGoesThoughItsPodRuns) {
  put_claim();
  reconcile_and_see();
  put_archive("blank", hours(1));
  auto blank = *stores.archives.get("ml/blank");
  blank.head = {};
  stores.archives.upsert("ml/blank", std::make_shared<const api::CompileCacheArchive>(blank));
  PodView pod{.ns = "ml", .name = "web", .uid = "u-1", .phase = "Running", .cache = "transformer"};
  stores.pods.upsert("ml/web", std::make_shared<const PodView>(pod));
  stats.loaded(
      "ml/transformer",
      {.pod = "web", .pod_uid = "u-1", .archive = "blank", .load = api::LoadOutcome::kExact});
  const size_t jobs_before = all(kJobs).size();
  reconcile_and_see();
  EXPECT_TRUE(all(kArchives).empty());
  EXPECT_EQ(all(kJobs).size(), jobs_before) << "there are no blobs to sweep";
}

}  // namespace
}  // namespace compilecache::controller
