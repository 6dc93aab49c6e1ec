#include "operator/caches/cache_stats.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace compilecache::controller {
namespace {

const std::string kCache = "ml/transformer";

struct OwnLedger {
  PodLedger pods;
};
// A leader's, with a ledger of its own.
struct Stats : OwnLedger, CacheStats {
  explicit Stats(size_t recent_limit) : CacheStats(recent_limit, pods) {}
};

LoadSeen load(const std::string& pod, api::LoadOutcome outcome) {
  return {.pod = pod,
          .pod_uid = "uid-" + pod,
          .node = "n1",
          .archive = "a1",
          .load = outcome,
          .milliseconds = 12,
          .time = "2026-01-02T03:04:05Z"};
}
EffectSeen effect(const std::string& pod, api::Effect word, double saved = 0) {
  return {.pod = pod, .pod_uid = "uid-" + pod, .effect = word, .seconds_saved = saved};
}
api::CompileCacheStatus status_of(const CacheStats& stats) {
  api::CompileCacheStatus status;
  stats.fill(kCache, status);
  return status;
}

TEST(CacheStats, CountsAndListsLoads) {
  Stats stats(32);
  stats.seed(kCache, {});
  stats.loaded(kCache, load("a", api::LoadOutcome::kExact));
  stats.loaded(kCache, load("b", api::LoadOutcome::kMissing));
  stats.loaded(kCache, load("c", api::LoadOutcome::kFailed));
  const auto status = status_of(stats);
  EXPECT_EQ(status.loads, (api::LoadCounters{.exact = 1, .missing = 1, .failed = 1}));
  const auto recent = status.recent.list();
  ASSERT_EQ(recent.size(), 3U);
  EXPECT_EQ(recent[0].pod, "a");
  EXPECT_EQ(recent[0].milliseconds, 12);
}

TEST(CacheStats, AVerdictIsOnePerPodAndMoves) {
  Stats stats(32);
  stats.seed(kCache, {});
  stats.loaded(kCache, load("a", api::LoadOutcome::kExact));
  EXPECT_FALSE(stats.effect(kCache, effect("a", api::Effect::kUnused)).before);
  const auto move = stats.effect(kCache, effect("a", api::Effect::kFull, 30));
  EXPECT_EQ(move.before, api::Effect::kUnused);
  EXPECT_EQ(move.archive, "a1");
  stats.effect(kCache, effect("a", api::Effect::kPartial, 20));
  const auto status = status_of(stats);
  EXPECT_EQ(status.effect, (api::EffectCounters{.partial = 1}));
  EXPECT_EQ(status.seconds_saved, 20);
  EXPECT_EQ(status.recent.list().at(0).effect, "partial");
}

TEST(CacheStats, OutlivesALeader) {
  Stats first(32);
  first.seed(kCache, {});
  first.loaded(kCache, load("a", api::LoadOutcome::kExact));
  first.effect(kCache, effect("a", api::Effect::kPartial, 30));
  first.saved(kCache, api::SaveOutcome::kCommitted, "2026-01-02T03:04:05Z");
  first.set_condemned(kCache, {{"sha256:x", "2026-01-02T03:04:05Z"}});
  Stats second(32);
  second.seed(kCache, status_of(first));
  second.effect(kCache, effect("a", api::Effect::kFull, 40));
  second.loaded(kCache, load("b", api::LoadOutcome::kExact));
  const auto status = status_of(second);
  EXPECT_EQ(status.loads.exact, 2);
  EXPECT_EQ(status.effect, (api::EffectCounters{.full = 1}));
  EXPECT_EQ(status.seconds_saved, 40) << "the same pod's, reported again";
  EXPECT_EQ(status.saves.committed, 1);
  EXPECT_EQ(status.last_save_time, "2026-01-02T03:04:05Z");
  EXPECT_EQ(status.condemned.size(), 1U);
}

TEST(CacheStats, WithoutASeedTheStatusIsLeftAlone) {
  Stats stats(32);
  stats.loaded(kCache, load("a", api::LoadOutcome::kExact));
  api::CompileCacheStatus status;
  status.loads.exact = 41;
  stats.fill(kCache, status);
  EXPECT_EQ(status.loads.exact, 41);
  stats.seed(kCache, status);
  stats.fill(kCache, status);
  EXPECT_EQ(status.loads.exact, 42);
}

TEST(CacheStats, KeepsPodsThatDidNotGoWellLongest) {
  Stats stats(4);
  stats.seed(kCache, {});
  stats.loaded(kCache, load("bad", api::LoadOutcome::kFailed));
  for (const char* pod : {"a", "b", "c", "d", "e"})
    stats.loaded(kCache, load(pod, api::LoadOutcome::kExact));
  const auto recent = status_of(stats).recent.list();
  ASSERT_EQ(recent.size(), 4U);
  EXPECT_EQ(recent[0].pod, "bad");
  EXPECT_EQ(recent[3].pod, "e");
  for (const char* pod : {"1", "2", "3", "4", "5"})
    stats.loaded(kCache, load(pod, api::LoadOutcome::kFailed));
  const auto later = status_of(stats).recent.list();
  EXPECT_TRUE(std::any_of(later.begin(), later.end(), [](const auto& p) { return p.pod == "e"; }))
      << "a good one is still shown";
}

TEST(CacheStats, KnowsWhichArchivesAreInUse) {
  Stats stats(32);
  stats.seed(kCache, {});
  stats.loaded(kCache, load("a", api::LoadOutcome::kExact));
  EXPECT_EQ(stats.archives_in_use(kCache, {"uid-a"}), std::set<std::string>{"a1"});
  EXPECT_TRUE(stats.archives_in_use(kCache, {}).empty())
      << "a pod that ended under a previous leader holds nothing";
  EXPECT_EQ(stats.load_of(kCache, "uid-a"), api::LoadOutcome::kExact);
  stats.pods.end("ml", "uid-a");
  EXPECT_TRUE(stats.archives_in_use(kCache, {"uid-a"}).empty());
  EXPECT_EQ(status_of(stats).loads.exact, 1);
}

TEST(CacheStats, AForgottenCompileCachesPodsCountAnew) {
  Stats stats(32);
  stats.seed(kCache, {});
  stats.loaded(kCache, load("a", api::LoadOutcome::kExact));
  stats.seed("ml/other", {});
  stats.loaded("ml/other", load("b", api::LoadOutcome::kExact));
  stats.forget(kCache);
  EXPECT_FALSE(stats.load_of(kCache, "uid-a"));
  EXPECT_EQ(stats.load_of("ml/other", "uid-b"), api::LoadOutcome::kExact);
  EXPECT_FALSE(stats.load_of(kCache, "uid-b")) << "it counts for another CompileCache";
  stats.seed(kCache, {});
  stats.loaded(kCache, load("a", api::LoadOutcome::kFailed));
  EXPECT_EQ(status_of(stats).loads, (api::LoadCounters{.failed = 1}));
}

TEST(CacheStats, CollectedArchivesCountForTheNextSweep) {
  Stats stats(32);
  stats.seed(kCache, {});
  stats.archives_removed(kCache, 2);
  stats.swept(kCache, {.time = "t", .freed_bytes = 5});
  EXPECT_EQ(status_of(stats).last_sweep, (api::LastSweep{"t", 5, 2, 0}));
  stats.swept(kCache, {.time = "u"});
  EXPECT_EQ(status_of(stats).last_sweep.removed_archives, 0);
}

TEST(CacheStats, TheOwnersOfFilesAreOneForEachImage) {
  Stats stats(32);
  EXPECT_TRUE(stats.note_owner(kCache, "vllm:1", 0, "t2"));
  stats.seed(kCache, {.file_owners = {{"vllm:1", 7, false, "t1"}, {"sglang:1", 5, false, "t1"}}});
  EXPECT_EQ(
      status_of(stats).file_owners,
      (std::vector<api::FileOwner>{{"sglang:1", 5, false, "t1"}, {"vllm:1", 0, false, "t2"}}));
  EXPECT_FALSE(stats.note_owner(kCache, "vllm:1", 0, "t3")) << "known";
  EXPECT_TRUE(stats.refuse_owners(kCache));
  EXPECT_FALSE(stats.refuse_owners(kCache));
  EXPECT_FALSE(stats.note_owner(kCache, "vllm:1", 0, "t4")) << "known to be refused";
  EXPECT_TRUE(status_of(stats).file_owners.back().refused);
  EXPECT_TRUE(stats.note_owner(kCache, "vllm:1", 9, "t5"));
  EXPECT_EQ(status_of(stats).file_owners.back(), (api::FileOwner{"vllm:1", 9, false, "t5"}));
  for (int i = 0; i < 100; ++i) stats.note_owner(kCache, "app:" + std::to_string(i), 0, "t6");
  EXPECT_EQ(status_of(stats).file_owners.size(), api::kMostFileOwners);
  EXPECT_EQ(status_of(stats).file_owners.back().image, "app:99");
}

TEST(CacheStats, SaysThatSomethingChanged) {
  Stats stats(32);
  int changes = 0;
  stats.on_change([&](const std::string& cache) { changes += cache == kCache; });
  stats.loaded(kCache, load("a", api::LoadOutcome::kExact));
  stats.effect(kCache, effect("a", api::Effect::kFull));
  stats.set_condemned(kCache, {});
  EXPECT_EQ(changes, 2);
}

}  // namespace
}  // namespace compilecache::controller
