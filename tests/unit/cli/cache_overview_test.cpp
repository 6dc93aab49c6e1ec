#include "cli/status/cache_overview.hpp"
#include "base/time_format.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/archive_key.hpp"
#include "api/conditions.hpp"

namespace compilecache::cli {
namespace {

using ::testing::HasSubstr;

constexpr char kH100[] = "NVIDIA-H100-80GB-HBM3";

api::Condition condition(const char* type, const char* status, const char* reason,
                         const char* message = "") {
  return {.type = type, .status = status, .reason = reason, .message = message};
}

api::CompileCacheArchive archive(const std::string& name, const std::string& cache,
                                 const std::string& gpu) {
  api::CompileCacheArchive made;
  made.metadata.name = name;
  made.metadata.ns = "ml";
  made.cache = cache;
  made.key = {{api::kGpuProductPart, gpu}};
  made.head.manifest_digest = "sha256:" + std::string(64, 'a');
  made.head.generation = 3;
  made.head.compressed_bytes = 1536;
  made.head.files = 12;
  made.loads.exact = 2;
  made.last_used_time = "2026-01-02T00:00:00Z";
  return made;
}

api::RecentPod pod(const std::string& name, const std::string& time, const std::string& load,
                   const std::string& reason, const std::string& effect = "") {
  api::RecentPod recent;
  recent.pod = name;
  recent.time = time;
  recent.load = load;
  recent.reason = reason;
  recent.effect = effect;
  return recent;
}

api::CompileCache llama() {
  api::CompileCache cache;
  cache.metadata.name = "llama";
  cache.metadata.ns = "ml";
  cache.status.store = "claim caches";
  cache.status.conditions = {condition(api::kReadyCondition, "True", "Ready"),
                             condition(api::kStorageReadyCondition, "True", "Bound")};
  cache.status.total_bytes = 3072;
  cache.status.active_pods = 4;
  cache.status.seconds_saved = 120;
  cache.status.loads = {.exact = 2, .compatible = 1, .missing = 1};
  cache.status.effect = {.full = 2, .none = 1};
  cache.status.saves = {.committed = 1};
  cache.status.last_save_time = "2026-01-01T00:00:00Z";
  return cache;
}

std::string screen_of(const CacheOverview& overview) {
  return text_of(overview, *parse_time("2026-01-03T00:00:00Z"));
}

TEST(CacheOverviewTest, ColdAndWarmStartsAreMediansOfTheLastPods) {
  const auto timed = [](const char* load, const char* effect, int64_t loading, int64_t compiling) {
    api::RecentPod recent = pod("web", "", load, "", effect);
    recent.milliseconds = loading;
    recent.compile_milliseconds = compiling;
    return recent;
  };
  api::CompileCache cache = llama();
  cache.status.recent = {timed("none", "", 500, 60'000),        timed("failed", "", 9'000, 90'000),
                         timed("none", "", 500, 30'000),        timed("none", "", 500, 0),
                         timed("exact", "full", 2'000, 0),      timed("exact", "full", 3'000, 500),
                         timed("exact", "none", 3'000, 40'000), timed("exact", "", 1, 0),
                         timed("exact", "unused", 1, 0),        timed("exact", "full", -1, 0)};
  cache.metadata.creation_time = "2026-01-01T00:00:00Z";
  const CacheOverview overview = overview_of(cache, {});
  EXPECT_EQ(overview.starts.cold_pods, 3) << "the fourth said nothing of its compiling";
  EXPECT_DOUBLE_EQ(overview.starts.cold_seconds, 60.5);
  EXPECT_EQ(overview.starts.warm_pods, 3) << "only those whose effect is known";
  EXPECT_DOUBLE_EQ(overview.starts.warm_seconds, 3.5);
  EXPECT_EQ(overview.created, "2026-01-01T00:00:00Z");
  EXPECT_EQ(overview_of(llama(), {}).starts.cold_pods, 0);
}

TEST(CacheOverviewTest, PercentIsRounded) {
  EXPECT_EQ(percent_of(2, 3), 67);
  EXPECT_EQ(percent_of(1, 3), 33);
  EXPECT_EQ(percent_of(999, 1000), 99) << "not all";
  EXPECT_EQ(percent_of(1, 1000), 1) << "not none";
  EXPECT_EQ(percent_of(0, 3), 0);
  EXPECT_EQ(percent_of(3, 3), 100);
}

TEST(CacheOverviewTest, WhatPeopleSee) {
  api::CompileCacheArchive suspect = archive("llama-9", "llama", "NVIDIA-A100");
  suspect.conditions = {condition(api::kSuspectCondition, "True", "PodsCrashed")};
  api::CompileCacheArchive saving = archive("llama-1", "llama", kH100);
  saving.lock = {.holder = "uid/1", .pod = "web-3"};
  api::CompileCacheArchive unsaved = archive("llama-2", "llama", kH100);
  unsaved.head = {};
  api::CompileCacheArchive elsewhere = archive("llama-3", "llama", kH100);
  elsewhere.metadata.ns = "other";
  EXPECT_EQ(screen_of(overview_of(
                llama(), {saving, unsaved, elsewhere, suspect, archive("qwen-1", "qwen", kH100)})),
            R"(cache     ml/llama, ready, claim caches
archives  2, 3Ki in the store
          NAME     GPU PRODUCT            GENERATION  SIZE   FILES  LOADS    LAST USED  STATE
          llama-9  NVIDIA-A100            3           1.5Ki  12     2 exact  24h        Suspect
          llama-1  NVIDIA-H100-80GB-HBM3  3           1.5Ki  12     2 exact  24h        saved by web-3 now
pods      4 now; starts so far: 2 exact, 1 compatible, 1 missing (75 % with an archive); effect: 2
          full, 1 none
saved     about 120 s of compiling
saves     1 committed; last 2d ago
)");
}

TEST(CacheOverviewTest, ACacheThatNobodyHasUsed) {
  api::CompileCache cache;
  cache.metadata.name = "llama";
  cache.metadata.ns = "ml";
  EXPECT_EQ(screen_of(overview_of(cache, {})), R"(cache     ml/llama, not known whether ready
archives  none yet
pods      0 now
wrong     Ready, NotSeen: the operator has said nothing of this CompileCache yet; see that it runs:
          kubectl get pods -n compilecache-system
)");
}

TEST(CacheOverviewTest, WhatIsWrongIsToldOnce) {
  api::CompileCache cache = llama();
  cache.status.conditions = {
      condition(api::kReadyCondition, "False", "ClaimNotFound", "no claim caches; create it"),
      condition(api::kStorageReadyCondition, "False", "ClaimNotFound",
                "no claim caches; create it"),
      condition(api::kStalledCondition, "True", "ClaimNotFound", "no claim caches; create it"),
      condition(api::kInjectionPausedCondition, "False", "AsExpected")};
  const CacheOverview overview = overview_of(cache, {});
  ASSERT_EQ(overview.wrong.size(), 1u);
  EXPECT_EQ(overview.wrong[0].type, api::kStorageReadyCondition);
  EXPECT_THAT(screen_of(overview),
              HasSubstr("wrong     StorageReady, ClaimNotFound: no claim caches; create it\n"));
  EXPECT_THAT(screen_of(overview), HasSubstr("ml/llama, not ready, "));
}

TEST(CacheOverviewTest, AnUnknownFrameworkIsToldBesideAWrongClaim) {
  api::CompileCache cache = llama();
  cache.status.conditions = {
      condition(api::kReadyCondition, "False", "UnknownFramework", "no framework vlm"),
      condition(api::kStorageReadyCondition, "False", "ClaimNotFound", "no claim caches"),
      condition(api::kStalledCondition, "True", "UnknownFramework", "no framework vlm")};
  const std::string told = screen_of(overview_of(cache, {}));
  EXPECT_THAT(told, HasSubstr("StorageReady, ClaimNotFound: no claim caches\n"));
  EXPECT_THAT(told, HasSubstr("Ready, UnknownFramework: no framework vlm\n"));
  EXPECT_THAT(told, ::testing::Not(HasSubstr("Stalled")));
}

TEST(CacheOverviewTest, APercentageIsRoundedButNeverToNoneOrAll) {
  EXPECT_EQ(hit_percent({.exact = 2, .missing = 1}), 67);
  EXPECT_EQ(hit_percent({.exact = 999, .missing = 1}), 99);
  EXPECT_EQ(hit_percent({.exact = 1, .missing = 999}), 1);
  EXPECT_EQ(hit_percent({.exact = 5}), 100);
  EXPECT_EQ(hit_percent({.missing = 5}), 0);
}

TEST(CacheOverviewTest, EveryConditionThatIsNotAsItShouldBe) {
  api::CompileCache cache = llama();
  cache.status.conditions = {condition(api::kReadyCondition, "False", "InjectionPaused"),
                             condition(api::kInjectionPausedCondition, "True", "PodsDoNotStart"),
                             condition(api::kPodsUnheardCondition, "True", "NotAsked"),
                             condition(api::kArchivesCopiedCondition, "False", "Failed")};
  std::vector<std::string> types;
  for (const WrongCondition& wrong : overview_of(cache, {}).wrong) types.push_back(wrong.type);
  EXPECT_THAT(types,
              ::testing::ElementsAre(api::kInjectionPausedCondition, api::kPodsUnheardCondition,
                                     api::kArchivesCopiedCondition));
  cache.status.conditions = {condition(api::kReadyCondition, "False", "Terminating")};
  EXPECT_EQ(overview_of(cache, {}).wrong.at(0).reason, "Terminating");
  cache.status.conditions = {condition(api::kReadyCondition, "Unknown", "Waiting"),
                             condition(api::kStalledCondition, "True", "Invalid")};
  EXPECT_EQ(overview_of(cache, {}).wrong.at(0).reason, "Invalid");
}

TEST(CacheOverviewTest, WhyPodsWereColdTheLatestOfThemNamed) {
  api::CompileCache cache = llama();
  cache.status.recent = {pod("early", "2026-01-01T00:00:00Z", "none", "no_archive"),
                         pod("worthless", "2026-01-01T00:00:01Z", "exact", "", "none"),
                         pod("warm", "2026-01-01T00:00:02Z", "exact", "", "full"),
                         pod("late", "2026-01-01T00:00:04Z", "none", "no_archive"),
                         pod("middle", "2026-01-01T00:00:03Z", "none", "no_archive"),
                         pod("newer", "2026-01-01T00:00:05Z", "failed", "a_word_of_tomorrow")};
  const CacheOverview overview = overview_of(cache, {});
  ASSERT_EQ(overview.cold.size(), 3u);
  EXPECT_EQ(overview.cold[0].pods, 3);
  EXPECT_EQ(overview.cold[0].pod, "late");
  const std::string text = screen_of(overview);
  EXPECT_THAT(text, HasSubstr("cold      3 of the last 6 pods, no_archive: nothing was saved yet"));
  EXPECT_THAT(text, HasSubstr("kubectl compilecache explain late -n ml"));
  EXPECT_THAT(text, HasSubstr("cold      1 of the last 6 pods, none: nothing of what they loaded"));
  EXPECT_THAT(text, HasSubstr("1 of the last 6 pods, a_word_of_tomorrow; kubectl"));
}

TEST(CacheOverviewTest, WhatCannotBeReadIsNotTakenForNothing) {
  CacheOverview overview = overview_of(llama(), {});
  overview.unread = "listing CompileCacheArchives: forbidden";
  EXPECT_THAT(screen_of(overview),
              HasSubstr("archives  not known: listing CompileCacheArchives: forbidden\n"));
  EXPECT_EQ(json_of(overview)["unread"], overview.unread);
}

TEST(CacheOverviewTest, ScriptsGetTheSame) {
  api::CompileCache cache = llama();
  cache.status.recent = {pod("web-1", "2026-01-01T00:00:00Z", "none", "no_archive")};
  const nlohmann::json told = json_of(overview_of(cache, {archive("llama-1", "llama", kH100)}));
  EXPECT_EQ(told["ready"], "True");
  EXPECT_EQ(told["secondsSaved"], 120);
  EXPECT_EQ(told["archives"][0]["gpuProduct"], kH100);
  EXPECT_EQ(told["archives"][0]["bytes"], 1536);
  EXPECT_EQ(told["loads"],
            nlohmann::json::parse(R"({"exact": 2, "compatible": 1, "missing": 1, "failed": 0})"));
  EXPECT_EQ(told["effect"]["none"], 1);
  EXPECT_EQ(told["saves"]["committed"], 1);
  EXPECT_EQ(told["cold"][0]["pod"], "web-1");
}

}  // namespace
}  // namespace compilecache::cli
