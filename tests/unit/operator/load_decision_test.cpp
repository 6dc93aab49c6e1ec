#include "operator/agents/load_decision.hpp"

#include <gtest/gtest.h>

#include "api/load_budget.hpp"
#include "operator/archives/archive_trust.hpp"
#include "tests/unit/operator/fake_archives.hpp"

namespace compilecache::controller {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::digest;

const std::string kSavedAt = "2026-01-02T03:04:05Z";

api::ArchiveKey key(const std::string& image, const std::string& product = "NVIDIA-H100") {
  return {{"GPUProduct", product}, {"GPUCount", "1"}, {"Image", image}};
}

api::ArchiveHead head(char fill, int64_t generation, const std::string& saved_at) {
  api::ArchiveHead head;
  head.manifest_digest = digest(fill);
  head.blobs = {digest(fill)};
  head.generation = generation;
  head.saved_at = saved_at;
  head.compile_seconds = 3600;  // so a load may take the whole timeout
  return head;
}

api::CompileCacheArchive archive(const api::ArchiveKey& of, const api::ArchiveHead& newest) {
  api::CompileCacheArchive archive;
  archive.metadata.name = api::archive_name("cache", of);
  archive.key = of;
  archive.head = newest;
  return archive;
}

LoadSituation situation(const std::vector<api::CompileCacheArchive>& archives) {
  LoadSituation s{.cache = "cache", .key = key("a")};
  for (const auto& item : archives) {
    s.archives.push_back(std::make_shared<const api::CompileCacheArchive>(item));
  }
  return s;
}

TEST(LoadDecision, GivesTheExactArchive) {
  const auto newer = archive(key("b"), head('b', 9, "2026-02-01T00:00:00Z"));
  const auto exact = archive(key("a"), head('a', 3, kSavedAt));
  EXPECT_EQ(decide_load(situation({exact, newer})).match, api::Match::kExact) << "in any order";
  const auto answer = decide_load(situation({newer, exact}));
  EXPECT_EQ(answer.decision, api::LoadDecision::kLoad);
  EXPECT_EQ(answer.match, api::Match::kExact);
  EXPECT_EQ(answer.manifest_digest, digest('a'));
  EXPECT_EQ(answer.generation, 3);
  EXPECT_EQ(answer.gpu_product, "NVIDIA-H100");
  EXPECT_EQ(answer.budget_ms, 120'000);
}

TEST(LoadDecision, FallsBackToTheNewestCompatibleOne) {
  const std::vector<api::CompileCacheArchive> archives{
      archive(key("b"), head('b', 1, "2026-01-01T00:00:00Z")),
      archive(key("c"), head('c', 1, "2026-03-01T00:00:00Z")),
      archive(key("d"), head('d', 1, "2026-02-01T00:00:00Z")),
      archive(key("a", "NVIDIA-A100"), head('e', 1, "2026-09-01T00:00:00Z"))};
  const auto answer = decide_load(situation(archives));
  EXPECT_EQ(answer.match, api::Match::kCompatible);
  EXPECT_EQ(answer.manifest_digest, digest('c'));

  LoadSituation exact_only = situation(archives);
  exact_only.fallback_compatible = false;
  EXPECT_EQ(decide_load(exact_only).decision, api::LoadDecision::kNone);
  EXPECT_EQ(decide_load(exact_only).reason, "no_archive");
}

LoadSituation on_host(const std::string& cpu,
                      const std::vector<api::CompileCacheArchive>& archives) {
  LoadSituation s = situation(archives);
  s.host_cpu = cpu;
  return s;
}

TEST(LoadDecision, NeverGivesCodeOfAnotherCpu) {
  const auto other = archive(api::with_cpu(key("a"), "avx512-1"), head('o', 9, kSavedAt));
  const auto answer = decide_load(on_host("avx2-2", {other}));
  EXPECT_EQ(answer.decision, api::LoadDecision::kNone);
  EXPECT_EQ(answer.reason, "cpu_mismatch");
  EXPECT_EQ(decide_load(on_host("avx512-1", {other})).match, api::Match::kExact);
  EXPECT_EQ(decide_load(on_host(api::kUnknownCpu, {other})).reason, "cpu_mismatch");
  EXPECT_EQ(decide_load(on_host("", {other})).reason, "cpu_mismatch")
      << "an agent of 0.2 does not say what it runs on";
}

TEST(LoadDecision, PrefersTheHostsOwnCpuThenWhatEveryCpuCanLoad) {
  const auto own = archive(api::with_cpu(key("a"), "avx512-1"), head('o', 1, kSavedAt));
  const auto any = archive(api::with_cpu(key("a"), api::kAnyCpu), head('a', 9, kSavedAt));
  const auto old = archive(key("a"), head('l', 99, kSavedAt));
  const auto digest_of = [](const std::vector<api::CompileCacheArchive>& archives) {
    return decide_load(on_host("avx512-1", archives)).manifest_digest;
  };
  EXPECT_EQ(digest_of({old, any, own}), digest('o')) << "in any order";
  EXPECT_EQ(digest_of({own, any, old}), digest('o'));
  EXPECT_EQ(digest_of({old, any}), digest('a'));
  EXPECT_EQ(digest_of({old}), digest('l')) << "the loader checks for code in it";
  EXPECT_EQ(decide_load(on_host("avx2-2", {own, any})).manifest_digest, digest('a'));
}

TEST(LoadDecision, WhatNobodyKnowsIsNotForPodsThatCompileForTheirCpu) {
  const auto old = archive(key("a"), head('l', 99, kSavedAt));
  LoadSituation s = on_host("avx512-1", {old});
  s.uses_gpu = false;
  EXPECT_EQ(decide_load(s).reason, "cpu_unknown");
  s.host_cpu.clear();
  EXPECT_EQ(decide_load(s).manifest_digest, digest('l')) << "agents of 0.2 go on as before";
}

TEST(LoadDecision, OfOtherImagesNoneOfAnotherCpuEither) {
  const auto other =
      archive(api::with_cpu(key("b"), "avx2-2"), head('o', 1, "2026-09-01T00:00:00Z"));
  const auto own =
      archive(api::with_cpu(key("c"), "avx512-1"), head('c', 1, "2026-01-01T00:00:00Z"));
  const auto any =
      archive(api::with_cpu(key("d"), api::kAnyCpu), head('d', 1, "2026-02-01T00:00:00Z"));
  const auto answer = decide_load(on_host("avx512-1", {other, own, any}));
  EXPECT_EQ(answer.match, api::Match::kCompatible);
  EXPECT_EQ(answer.manifest_digest, digest('d')) << "the newest that fits";
}

api::ArchiveHead saved_by(api::ArchiveHead head, const std::string& account,
                          const std::string& workload) {
  head.saved_by = "pod";
  head.service_account = account;
  head.workload = workload;
  return head;
}

// A developer's pod of another image must not decide what production loads by being the latest.
TEST(LoadDecision, FallsBackToThePodsOwnAccountAndWorkloadFirst) {
  const auto of = [&](const char* image, char fill, const std::string& at, const char* account,
                      const char* workload) {
    return archive(key(image), saved_by(head(fill, 1, at), account, workload));
  };
  std::vector<api::CompileCacheArchive> archives{
      of("b", 'b', "2026-03-01T00:00:00Z", "dev", "Deployment/web"),
      of("c", 'c', "2026-01-01T00:00:00Z", "prod", "Deployment/web"),
      of("d", 'd', "2026-02-01T00:00:00Z", "prod", "Deployment/other")};
  const auto loaded = [&] {
    LoadSituation s = situation(archives);
    s.service_account = "prod";
    s.workload = "Deployment/web";
    return decide_load(s).manifest_digest;
  };
  EXPECT_EQ(loaded(), digest('c')) << "its own workload's";
  archives.erase(archives.begin() + 1);
  EXPECT_EQ(loaded(), digest('d')) << "its own account's";
  archives.erase(archives.begin() + 1);
  EXPECT_EQ(loaded(), digest('b')) << "else anybody's that may save";
  archives.push_back(of("e", 'e', "2026-04-01T00:00:00Z", "", ""));
  EXPECT_EQ(loaded(), digest('e')) << "of those the newest";
}

TEST(LoadDecision, NothingOfAnAccountThatMayNotSaveIsHandedOut) {
  api::CompileCacheArchive exact =
      archive(key("a"), saved_by(head('a', 2, kSavedAt), "dev", "Deployment/web"));
  exact.previous = saved_by(head('p', 1, kSavedAt), "prod", "");
  const auto fallback =
      archive(key("b"), saved_by(head('b', 9, "2026-02-01T00:00:00Z"), "dev", ""));
  const auto loaded = [&](const std::vector<std::string>& allowed) {
    LoadSituation s = situation({exact, fallback});
    s.allowed_service_accounts = allowed;
    return decide_load(s);
  };
  EXPECT_EQ(loaded({}).manifest_digest, digest('a'));
  EXPECT_EQ(loaded({"dev", "prod"}).manifest_digest, digest('a'));
  EXPECT_EQ(loaded({"prod"}).manifest_digest, digest('p')) << "the generation before";
  exact.previous.earlier_accounts = {"dev"};
  EXPECT_EQ(loaded({"prod"}).decision, api::LoadDecision::kNone) << "it extends dev's";
  EXPECT_EQ(loaded({"prod"}).reason, "saver_not_allowed");
  exact.head.service_account.clear();
  EXPECT_EQ(loaded({"prod"}).manifest_digest, digest('a')) << "of an earlier release, or copied";
}

TEST(LoadDecision, WhoWaitsForOtherNamespacesAsksAgainSoon) {
  LoadSituation s = situation({archive(key("a"), head('a', 1, kSavedAt))});
  s.too_many_loads = true;
  s.waiting = 5000;
  EXPECT_GT(decide_load(s).retry_after_ms, 5'000) << "its own crowd";
  s.place_due = milliseconds(1'700);
  EXPECT_LE(decide_load(s).retry_after_ms, 500);
  s.place_due = milliseconds(1);
  EXPECT_GE(decide_load(s).retry_after_ms, 100);
}

TEST(LoadDecision, NeverCrossesGpuProducts) {
  const auto answer =
      decide_load(situation({archive(key("a", "NVIDIA-A100"), head('e', 1, kSavedAt))}));
  EXPECT_EQ(answer.decision, api::LoadDecision::kNone);
}

TEST(LoadDecision, WaitsForTheLabelAndThenGoesCold) {
  LoadSituation s = situation({});
  s.key = fail(ErrorCode::kUnavailable, "no label");
  s.waited = seconds(3);
  EXPECT_EQ(decide_load(s).decision, api::LoadDecision::kWait);
  EXPECT_EQ(decide_load(s).reason, "gpu_product_unknown");
  EXPECT_GT(decide_load(s).retry_after_ms, 0);
  s.waited = s.label_wait;
  EXPECT_EQ(decide_load(s).decision, api::LoadDecision::kNone);
  EXPECT_EQ(decide_load(s).reason, "gpu_product_unknown");
}

TEST(LoadDecision, WaitsForADriverThatIsStartedAnewAndForNothingElseOfClaims) {
  LoadSituation s = situation({});
  const auto decide_for = [&](const char* reason, ErrorCode code) {
    Error error{code, "no device"};
    error.reason = reason;
    s.key = unexpected(error);
    return decide_load(s);
  };
  const auto waits = decide_for(api::kDeviceNotPublished, ErrorCode::kUnavailable);
  EXPECT_EQ(waits.decision, api::LoadDecision::kWait);
  EXPECT_EQ(waits.reason, api::kDeviceNotPublished);
  for (const char* final :
       {api::kClaimNotAllocated, api::kDeviceUnknown, api::kDevicesUnreadable}) {
    const auto cold = decide_for(final, ErrorCode::kUnavailable);
    EXPECT_EQ(cold.decision, api::LoadDecision::kNone) << final;
    EXPECT_EQ(cold.reason, final);
  }
  s.waited = s.label_wait;
  EXPECT_EQ(decide_for(api::kDeviceNotPublished, ErrorCode::kUnavailable).decision,
            api::LoadDecision::kNone);
}

TEST(LoadDecision, WaitsForTheFirstPodNoLongerThanAllowed) {
  LoadSituation s = situation({});
  s.first_is_compiling = true;
  EXPECT_EQ(decide_load(s).decision, api::LoadDecision::kNone) << "the user did not ask for it";
  s.wait_for_first = seconds(60);
  EXPECT_EQ(decide_load(s).reason, "waiting_for_first");
  // Rarer with time, and each at its own moment.
  EXPECT_EQ(decide_load(s).retry_after_ms, 1'000);
  s.waited = seconds(32);
  EXPECT_EQ(decide_load(s).retry_after_ms, 4'000);
  s.spread = 0;
  EXPECT_EQ(decide_load(s).retry_after_ms, 3'000);
  s.spread = 1;
  EXPECT_EQ(decide_load(s).retry_after_ms, 5'000);
  s.spread = 0.5;
  s.waiting = 700;
  EXPECT_EQ(decide_load(s).retry_after_ms, 7'000) << "so that all together do not ask too often";
  s.waited = milliseconds(59'900);
  EXPECT_EQ(decide_load(s).retry_after_ms, 100);
  s.waited = seconds(60);
  EXPECT_EQ(decide_load(s).decision, api::LoadDecision::kNone);
}

TEST(LoadDecision, APodThatIsHeldGetsWhatThereIsAtItsBound) {
  LoadSituation s = situation({archive(key("a"), head('a', 3, kSavedAt))});
  s.first_is_compiling = true;
  s.wait_for_first = seconds(60);
  EXPECT_EQ(decide_load(s).reason, "waiting_for_first");
  s.waited = seconds(60);
  EXPECT_EQ(decide_load(s).decision, api::LoadDecision::kLoad);
  EXPECT_EQ(decide_load(s).budget_ms, 120'000) << "its load has a bound of its own";
}

// A thousand pods that waited for the first one all want a place at the same moment.
TEST(LoadDecision, TheWaitForAPlaceIsCountedByItself) {
  LoadSituation s = situation({archive(key("a"), head('a', 3, kSavedAt))});
  s.too_many_loads = true;
  s.waited = seconds(600);
  EXPECT_EQ(decide_load(s).reason, "too_many_loads");
  EXPECT_EQ(decide_load(s).decision, api::LoadDecision::kWait);
  s.waited_for_place = seconds(100);
  s.too_many_loads = false;
  EXPECT_EQ(decide_load(s).budget_ms, 20'000) << "what is left of it";
  s.first_is_compiling = true;
  s.wait_for_first = seconds(600);
  EXPECT_EQ(decide_load(s).reason, "waiting_for_first") << "500 s for it, 100 s for a place";
}

TEST(LoadDecision, OthersAreHeldUntilTheSilenceIsAsLongAsHalfOfTheCompile) {
  api::CommitRequest saved{.compile_seconds = 40, .still_ms = 5'000, .notices_within_ms = 3'000};
  EXPECT_EQ(settle_time(saved), seconds(15));
  saved.compile_seconds = 4000;
  EXPECT_EQ(settle_time(saved), seconds(25)) << "30 s are enough";
  saved.still_ms = 29'000;
  EXPECT_EQ(settle_time(saved), seconds(3)) << "the saver has to have looked once more";
  saved.still_ms = 30'000;
  EXPECT_EQ(settle_time(saved), seconds(0)) << "as with the usual quiet period";
  saved.still_ms = 0;
  saved.complete = true;
  EXPECT_EQ(settle_time(saved), seconds(0)) << "the application said so";
  EXPECT_EQ(settle_time({.compile_seconds = -1e300, .still_ms = -5}), seconds(0));
}

TEST(LoadDecision, TooManyLoadsWaitWithinTheBudget) {
  LoadSituation s = situation({archive(key("a"), head('a', 3, kSavedAt))});
  s.too_many_loads = true;
  EXPECT_EQ(decide_load(s).reason, "too_many_loads");
  EXPECT_EQ(decide_load(s).decision, api::LoadDecision::kWait);
  EXPECT_EQ(decide_load(s).retry_after_ms, 100);
  s.waiting = 60;
  EXPECT_EQ(decide_load(s).retry_after_ms, 600) << "so that all together do not ask too often";
  s.waiting = 10'000;
  EXPECT_EQ(decide_load(s).retry_after_ms, 10'000);
  s.waited = s.waited_for_place = seconds(118);
  EXPECT_EQ(decide_load(s).retry_after_ms, 500) << "some more times within the budget";
  s.waited = s.waited_for_place = seconds(120);
  EXPECT_EQ(decide_load(s).decision, api::LoadDecision::kNone);
}

TEST(LoadDecision, RefreshLoadsNothing) {
  LoadSituation s = situation({archive(key("a"), head('a', 3, kSavedAt))});
  s.mode = api::Mode::kRefresh;
  EXPECT_EQ(decide_load(s).decision, api::LoadDecision::kNone);
  EXPECT_EQ(decide_load(s).reason, "mode_refresh");
}

TEST(LoadDecision, TheBudgetIsHalfOfWhatCanBeSaved) {
  EXPECT_EQ(api::load_budget(seconds(120), 0), seconds(10)) << "nobody knows what it saves";
  EXPECT_EQ(api::load_budget(seconds(120), 0, 1'000'000'000), seconds(30)) << "a large one, much";
  EXPECT_EQ(api::load_budget(seconds(120), 0, 100'000'000'000), seconds(120));
  EXPECT_EQ(api::load_budget(seconds(3), 0), seconds(3));
  EXPECT_EQ(api::load_budget(seconds(120), 60), seconds(30));
  EXPECT_EQ(api::load_budget(seconds(120), 8), seconds(5));
  EXPECT_EQ(api::load_budget(seconds(120), 2), seconds(2)) << "never slower than cold";
  EXPECT_EQ(api::load_budget(seconds(120), 0.1), seconds(1)) << "a small archive needs as much";
  EXPECT_EQ(api::load_budget(seconds(120), 3600), seconds(120));
  EXPECT_EQ(api::load_budget(seconds(3), 8), seconds(3));
}

TEST(LoadDecision, ALoadMayTakeHalfOfTheCompileTimeThatItSaves) {
  auto one = archive(key("a"), head('a', 3, kSavedAt));
  one.head.compile_seconds = 60;
  EXPECT_EQ(decide_load(situation({one})).budget_ms, 30'000);
  one.head.compile_seconds = 2;
  EXPECT_EQ(decide_load(situation({one})).budget_ms, 2'000);
}

TEST(ArchiveTrust, ASuspectHeadGivesWayToTheGenerationBefore) {
  auto one = archive(key("a"), head('b', 2, kSavedAt));
  one.previous = head('a', 1, kSavedAt);
  ASSERT_TRUE(mark_suspect(one, digest('b'), "web-1", kSavedAt));
  EXPECT_TRUE(is_suspect(one));
  EXPECT_EQ(decide_load(situation({one})).manifest_digest, digest('a'));
  EXPECT_FALSE(mark_suspect(one, digest('b'), "web-2", kSavedAt)) << "it is known already";
  EXPECT_EQ(manifests_to_check(one), std::vector<std::string>{digest('b')});
}

TEST(ArchiveTrust, WhatSharesTheCorruptBlobIsNotHandedOutEither) {
  auto one = archive(key("a"), head('b', 2, kSavedAt));
  one.previous = head('a', 1, kSavedAt);
  one.head.blobs.push_back(digest('c'));
  one.previous.blobs.push_back(digest('c'));
  ASSERT_TRUE(mark_suspect(one, digest('c'), "web-1", kSavedAt));
  EXPECT_EQ(usable_head(one), nullptr);
  EXPECT_EQ(decide_load(situation({one})).reason, "suspect");
  EXPECT_EQ(manifests_to_check(one).size(), 2U);
}

TEST(ArchiveTrust, AReportAboutSomethingElseChangesNothing) {
  auto one = archive(key("a"), head('b', 2, kSavedAt));
  EXPECT_FALSE(mark_suspect(one, digest('f'), "web-1", kSavedAt));
  EXPECT_FALSE(is_suspect(one));
}

TEST(ArchiveTrust, ASweepClearsOrConfirms) {
  auto one = archive(key("a"), head('b', 2, kSavedAt));
  one.previous = head('a', 1, kSavedAt);
  mark_suspect(one, digest('b'), "web-1", kSavedAt);
  auto whole = one;
  ASSERT_TRUE(mark_verified(whole, digest('b'), kSavedAt));
  EXPECT_EQ(usable_head(whole)->manifest_digest, digest('b'));

  ASSERT_TRUE(mark_corrupt(one, digest('b'), kSavedAt));
  EXPECT_TRUE(is_corrupt(one));
  EXPECT_FALSE(is_suspect(one));
  EXPECT_EQ(one.head.manifest_digest, digest('a'));
  EXPECT_EQ(usable_head(one)->manifest_digest, digest('a'));

  auto only = archive(key("a"), head('b', 2, kSavedAt));
  mark_corrupt(only, digest('b'), kSavedAt);
  EXPECT_EQ(decide_load(situation({only})).reason, "corrupt");
  clear_distrust(only, kSavedAt);
  EXPECT_FALSE(is_corrupt(only));
}

TEST(ArchiveTrust, OtherArchivesVerdictsChangeNothing) {
  auto one = archive(key("a"), head('b', 2, kSavedAt));
  mark_suspect(one, digest('b'), "web-1", kSavedAt);
  EXPECT_FALSE(mark_verified(one, digest('f'), kSavedAt));
  EXPECT_FALSE(mark_corrupt(one, digest('f'), kSavedAt));
  EXPECT_TRUE(is_suspect(one));
  EXPECT_FALSE(is_corrupt(one));
  EXPECT_EQ(one.head.manifest_digest, digest('b'));
}

TEST(ArchiveTrust, WhatElseWasSuspectStaysSoWhenOneIsCorrupt) {
  auto one = archive(key("a"), head('b', 2, kSavedAt));
  one.previous = head('a', 1, kSavedAt);
  mark_suspect(one, digest('a'), "web-1", kSavedAt);
  mark_suspect(one, digest('b'), "web-1", kSavedAt);
  ASSERT_TRUE(mark_corrupt(one, digest('b'), kSavedAt));
  EXPECT_EQ(one.head.manifest_digest, digest('a'));
  EXPECT_EQ(usable_head(one), nullptr) << "nobody has read it yet";
}

// A sweep reads what is suspect and would clear it; what makes pods crash has the right bytes.
TEST(ArchiveTrust, CrashesAndCorruptionDoNotHideEachOther) {
  auto crashing = archive(key("a"), head('b', 2, kSavedAt));
  crashing.previous = head('a', 1, kSavedAt);
  ASSERT_TRUE(mark_crashing(crashing, digest('b'), {"web-1"}, kSavedAt));
  EXPECT_FALSE(mark_suspect(crashing, digest('a'), "web-2", kSavedAt));
  EXPECT_EQ(crashing_manifests(crashing), std::set<std::string>{digest('b')});
  auto suspect = archive(key("a"), head('b', 2, kSavedAt));
  ASSERT_TRUE(mark_suspect(suspect, digest('b'), "web-1", kSavedAt));
  EXPECT_FALSE(mark_crashing(suspect, digest('b'), {"web-2"}, kSavedAt)) << "it is read first";
  EXPECT_EQ(manifests_to_check(suspect), std::vector<std::string>{digest('b')});
}

TEST(ArchiveTrust, TheFieldSaysWhatIsDistrustedAndTheMessageTellsPeople) {
  auto one = archive(key("a"), head('b', 2, kSavedAt));
  one.previous = head('a', 1, kSavedAt);
  ASSERT_TRUE(mark_suspect(one, digest('b'), "web-1", kSavedAt));
  EXPECT_EQ(one.distrusted,
            (std::vector<api::DistrustedBlob>{
                {digest('b'), api::DistrustReason::kLoadReportedCorruption, kSavedAt}}));
  EXPECT_NE(one.conditions[0].message.find(digest('b')), std::string::npos)
      << "which 0.1 reads, and people";
  one.conditions[0].message = "pod web-1 found " + digest('a');
  EXPECT_EQ(usable_head(one)->manifest_digest, digest('a'));
  ASSERT_TRUE(mark_verified(one, digest('b'), kSavedAt));
  EXPECT_TRUE(one.distrusted.empty());
}

TEST(ArchiveTrust, WhoClearsTheConditionByHandHasClearedIt) {
  auto one = archive(key("a"), head('b', 2, kSavedAt));
  one.head.blobs.push_back(digest('c'));
  mark_suspect(one, digest('b'), "web-1", kSavedAt);
  one.conditions[0].status = "False";
  EXPECT_EQ(usable_head(one), &one.head);
  EXPECT_TRUE(mark_suspect(one, digest('c'), "web-1", kSavedAt));
  EXPECT_EQ(distrusted_digests(one), std::set<std::string>{digest('c')})
      << "what was cleared does not come back";
}

TEST(ArchiveTrust, MoreBlobsThanTheStatusTakesAreDistrustedByTheirManifest) {
  auto one = archive(key("a"), head('b', 2, kSavedAt));
  one.previous = head('a', 1, kSavedAt);
  std::vector<std::string> blobs;
  for (size_t i = 0; i < api::kMostDistrusted + 40; ++i) {
    const std::string number = std::to_string(1000 + i);
    blobs.push_back("sha256:" + std::string(60, '0') + number);
  }
  one.head.blobs.insert(one.head.blobs.end(), blobs.begin(), blobs.end());
  for (const std::string& blob : blobs) {
    mark_suspect(one, blob, "web-1", kSavedAt);
    ASSERT_LE(one.distrusted.size(), api::kMostDistrusted);
    ASSERT_EQ(usable_head(one), &one.previous);
    ASSERT_EQ(manifests_to_check(one), std::vector<std::string>{digest('b')});
  }
  ASSERT_TRUE(mark_corrupt(one, digest('b'), kSavedAt));
  EXPECT_LE(one.distrusted.size(), api::kMostDistrusted);
  EXPECT_EQ(usable_head(one)->manifest_digest, digest('a'));
}

TEST(LoadDecision, AnArchiveThatIsBeingDeletedIsNotGiven) {
  auto gone = archive(key("a"), head('a', 3, kSavedAt));
  gone.metadata.deleting = true;
  EXPECT_EQ(decide_load(situation({gone})).decision, api::LoadDecision::kNone);
}

}  // namespace
}  // namespace compilecache::controller
