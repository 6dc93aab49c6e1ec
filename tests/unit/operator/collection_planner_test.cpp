#include "operator/archives/collection_planner.hpp"

#include <gtest/gtest.h>

#include <chrono>

#include "base/time_format.hpp"

namespace compilecache::controller {
namespace {

using std::chrono::hours;

const WallTime kNow = *parse_time("2026-05-01T12:00:00Z");

api::CompileCacheArchive archive(const std::string& name, const std::string& product,
                                 int saved_hours_ago, int used_hours_ago, int64_t bytes = 100) {
  api::CompileCacheArchive made;
  made.metadata.name = name;
  made.metadata.uid = "uid-" + name;
  made.metadata.creation_time = format_time(kNow - hours(10000));
  made.key[api::kGpuProductPart] = product;
  made.head.manifest_digest = "sha256:" + name;
  made.head.saved_at = format_time(kNow - hours(saved_hours_ago));
  made.head.compressed_bytes = bytes;
  made.last_used_time = format_time(kNow - hours(used_hours_ago));
  return made;
}

std::vector<std::string> stale_names(const std::vector<api::CompileCacheArchive>& archives,
                                     const api::CompileCacheSpec::Retention& retention,
                                     const std::set<std::string>& in_use = {}) {
  std::vector<std::string> names;
  for (const StaleArchive& stale : plan_collection(archives, retention, in_use, kNow)) {
    names.push_back(stale.name + " " + to_string(stale.reason));
  }
  return names;
}

using Names = std::vector<std::string>;

TEST(CollectionPlanner, KeepsWhatIsUsedAndFits) {
  EXPECT_EQ(stale_names({archive("a", "H100", 500, 1), archive("b", "A100", 2, 2)}, {}), Names{});
}

TEST(CollectionPlanner, DropsWhatNobodyUsed) {
  EXPECT_EQ(stale_names({archive("old", "H100", 900, 800), archive("new", "H100", 10, 5)}, {}),
            Names{"old unusedFor"});
}

TEST(CollectionPlanner, ASaveCountsAsUse) {
  auto saved = archive("a", "H100", 10, 10);
  saved.last_used_time.clear();
  EXPECT_EQ(stale_names({saved}, {}), Names{});
}

TEST(CollectionPlanner, DropsAWholeProductThatNobodyUsesOldestFirst) {
  EXPECT_EQ(stale_names({archive("new", "H100", 800, 800), archive("old", "H100", 900, 900)}, {}),
            (Names{"old unusedFor", "new unusedFor"}));
}

TEST(CollectionPlanner, NeverDropsWhatIsInUse) {
  EXPECT_EQ(stale_names({archive("a", "H100", 900, 900)}, {}, {"a"}), Names{});
}

// A saver that died leaves its name in the lock.
TEST(CollectionPlanner, AnAbandonedLockKeepsNothing) {
  auto abandoned = archive("a", "H100", 900, 900);
  abandoned.lock.holder = "uid/nonce";
  EXPECT_EQ(stale_names({abandoned}, {}), Names{"a unusedFor"});
}

TEST(CollectionPlanner, TheNewestOfAProductStaysWhileAnOlderOneIsInUse) {
  EXPECT_EQ(stale_names({archive("new", "H100", 800, 800), archive("old", "H100", 900, 900)}, {},
                        {"old"}),
            Names{});
}

TEST(CollectionPlanner, KeepsTheLastSavedOfEachProduct) {
  api::CompileCacheSpec::Retention retention;
  retention.keep_per_gpu = 2;
  EXPECT_EQ(stale_names({archive("h1", "H100", 1, 1), archive("h2", "H100", 2, 1),
                         archive("h3", "H100", 3, 1), archive("a3", "A100", 9, 1)},
                        retention),
            Names{"h3 keepPerGPU"});
}

TEST(CollectionPlanner, WorkloadsAndVersionsThatShareACompileCacheTakeNothingFromEachOther) {
  api::CompileCacheSpec::Retention retention;
  retention.keep_per_gpu = 1;
  const auto of = [](const std::string& name, int hours_ago, api::ArchiveKey more) {
    auto made = archive(name, "H100", hours_ago, 1);
    made.key.merge(more);
    return made;
  };
  EXPECT_EQ(stale_names({of("a-new", 1, {{"Workload", "Job/a"}, {"Image", "app:2"}}),
                         of("a-old", 9, {{"Workload", "Job/a"}, {"Image", "app:1"}}),
                         of("b", 2, {{"Workload", "Job/b"}, {"Image", "app:1"}}),
                         of("v2", 3, {{"Version", "2"}, {"DriverVersion", "550"}}),
                         of("v2-old", 4, {{"Version", "2"}, {"DriverVersion", "535"}}),
                         of("eight", 5, {{"GPUCount", "8"}})},
                        retention),
            (Names{"a-old keepPerGPU", "v2-old keepPerGPU"}));
}

TEST(CollectionPlanner, AnyNumberOfWorkloadsDoesNotMakeAnyNumberOfArchives) {
  api::CompileCacheSpec::Retention retention;
  retention.keep_per_gpu = 1;
  std::vector<api::CompileCacheArchive> archives;
  for (int i = 0; i < 23; ++i) {
    archives.push_back(archive("job-" + std::to_string(i), "H100", 30 - i, 30 - i));
    archives.back().key["Workload"] = "Job/" + std::to_string(i);
  }
  EXPECT_EQ(stale_names(archives, retention),
            (Names{"job-0 keepPerGPU", "job-1 keepPerGPU", "job-2 keepPerGPU"}))
      << "those that were used least recently";
}

TEST(CollectionPlanner, LeastRecentlyUsedGoFirstWhenTheTotalIsTooLarge) {
  api::CompileCacheSpec::Retention retention;
  retention.max_total_size = 250;
  EXPECT_EQ(stale_names({archive("a", "H100", 30, 20), archive("b", "H100", 20, 9),
                         archive("c", "H100", 10, 5)},
                        retention),
            Names{"a maxTotalSize"});
}

TEST(CollectionPlanner, AnOlderOneGoesBeforeTheNewestEvenWhenItWasUsedLater) {
  api::CompileCacheSpec::Retention retention;
  retention.max_total_size = 150;
  EXPECT_EQ(stale_names({archive("new", "H100", 10, 9), archive("old", "H100", 30, 1)}, retention),
            Names{"old maxTotalSize"});
}

TEST(CollectionPlanner, WhatIsInUseMayExceedTheTotal) {
  api::CompileCacheSpec::Retention retention;
  retention.max_total_size = 10;
  EXPECT_EQ(stale_names({archive("a", "H100", 10, 9), archive("b", "A100", 30, 1)}, retention,
                        {"a", "b"}),
            Names{});
}

TEST(CollectionPlanner, AnArchiveWithoutASaveGoesWhenNobodySavesItAnyMore) {
  api::CompileCacheArchive failed;
  failed.metadata.name = "failed";
  failed.metadata.creation_time = format_time(kNow - hours(1));
  api::CompileCacheArchive fresh = failed;
  fresh.metadata.name = "fresh";
  fresh.metadata.creation_time = format_time(kNow);
  api::CompileCacheArchive saving = failed;
  saving.metadata.name = "saving";
  saving.lock.holder = "pod/1";
  api::CompileCacheArchive corrupt = failed;
  corrupt.metadata.name = "corrupt";
  corrupt.conditions = {{"Corrupt", "True"}};
  api::CompileCacheSpec::Retention retention;
  retention.keep_per_gpu = 1;
  EXPECT_EQ(stale_names({fresh, failed, saving, corrupt, archive("a", "H100", 1, 1)}, retention),
            Names{"failed incompleteTimeout"});
  EXPECT_EQ(stale_names({failed}, retention, {"failed"}), Names{});
  saving.metadata.creation_time = corrupt.metadata.creation_time = format_time(kNow - hours(1000));
  EXPECT_EQ(stale_names({saving, corrupt}, retention),
            (Names{"saving unusedFor", "corrupt unusedFor"}));
}

}  // namespace
}  // namespace compilecache::controller
