#include "operator/archives/save_coordinator.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "operator/archives/archive_trust.hpp"
#include "tests/unit/operator/fake_archives.hpp"

namespace compilecache::controller {
namespace {

using std::chrono::seconds;
using test::digest;
using test::FakeArchives;

class SaveCoordinatorTest : public ::testing::Test {
 protected:
  SaveContext pod(const std::string& name, const std::string& image = "a") const {
    SaveContext context;
    context.ns = "ml";
    context.pod = name;
    context.pod_uid = "uid-" + name;
    context.service_account = "default";
    context.cache = "cache";
    context.cache_uid = "cache-uid";
    context.store = api::VolumeRef{"ml", "claim", "cache"};
    context.key = {{"GPUProduct", "NVIDIA-H100"}, {"Image", image}};
    return context;
  }

  api::SaveAnswer ask(const SaveContext& context, SaveCoordinator* leader = nullptr) {
    api::SaveRequest request{.attempt = "n" + std::to_string(++attempts_), .new_files = 1};
    auto answer = (leader ? *leader : saves).request(context, request);
    EXPECT_TRUE(answer) << answer.error().message;
    return answer.value_or(api::SaveAnswer{});
  }

  static api::CommitRequest commit_of(const api::SaveAnswer& save, char manifest) {
    return {.fence = save.fence,
            .parent_digest = save.parent_digest,
            .manifest_digest = digest(manifest),
            .blobs = {digest(manifest), digest('f')},
            .compressed_bytes = 100,
            .layers = 1,
            .compile_seconds = 10};
  }

  Result<api::CommitAnswer> commit(const SaveContext& context, const api::SaveAnswer& save,
                                   char manifest) {
    auto done = saves.commit(context, save.id, commit_of(save, manifest));
    if (!done) return unexpected(done.error());
    repeated_ = done->repeated;
    return done->answer;
  }

  api::CompileCacheArchive archive() { return archives.archives.begin()->second; }

  FakeArchives archives;
  FakeClock clock;
  CacheLocks locks;
  SweepGuard guard;
  SaveCoordinator saves{archives, locks, guard, 2, clock, seeded_random(1)};
  int attempts_ = 0;
  bool repeated_ = false;  // the last commit
};

TEST_F(SaveCoordinatorTest, TheFirstSaveMakesTheArchive) {
  const auto save = ask(pod("a"));
  EXPECT_EQ(save.decision, api::SaveDecision::kGranted);
  EXPECT_EQ(save.fence, 1);
  EXPECT_EQ(save.generation, 1);
  EXPECT_EQ(save.parent_digest, "");
  EXPECT_EQ(save.lock_timeout_ms, 30'000);
  const auto head = commit(pod("a"), save, '1');
  ASSERT_TRUE(head) << head.error().message;
  EXPECT_EQ(head->generation, 1);
  EXPECT_EQ(archive().head.saved_by, "a");
  EXPECT_EQ(archive().head.blobs.size(), 2U);
  EXPECT_EQ(archive().lock.holder, "");
  EXPECT_EQ(archive().lock.fence, 1);
  EXPECT_EQ(archive().key.at("GPUProduct"), "NVIDIA-H100");
}

TEST_F(SaveCoordinatorTest, OneAtATimeAndTheNextExtendsTheHead) {
  const auto first = ask(pod("a"));
  const auto second = ask(pod("b"));
  EXPECT_EQ(second.decision, api::SaveDecision::kBusy);
  EXPECT_EQ(second.reason, "locked");
  EXPECT_GT(second.retry_after_ms, 0);
  ASSERT_TRUE(commit(pod("a"), first, '1'));
  const auto third = ask(pod("b"));
  EXPECT_EQ(third.decision, api::SaveDecision::kGranted);
  EXPECT_EQ(third.fence, 2);
  EXPECT_EQ(third.parent_digest, digest('1'));
  ASSERT_TRUE(commit(pod("b"), third, '2'));
  EXPECT_EQ(archive().previous.manifest_digest, digest('1'));
  EXPECT_EQ(archive().head.generation, 2);
}

TEST_F(SaveCoordinatorTest, ASilentHolderLosesTheLockAndItsCommitIsRefused) {
  const auto slow = ask(pod("a"));
  clock.advance(seconds(29));
  EXPECT_EQ(ask(pod("b")).decision, api::SaveDecision::kBusy);
  ASSERT_TRUE(saves.renew("ml", "uid-a", slow.id, slow.fence, seconds(30)));
  clock.advance(seconds(29));
  EXPECT_EQ(ask(pod("b")).decision, api::SaveDecision::kBusy) << "it has called";
  clock.advance(seconds(1));
  const auto next = ask(pod("b"));
  EXPECT_EQ(next.decision, api::SaveDecision::kGranted);
  EXPECT_EQ(next.fence, 2);
  const auto late = commit(pod("a"), slow, '1');
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, ErrorCode::kConflict);
  EXPECT_EQ(saves.renew("ml", "uid-a", slow.id, slow.fence, seconds(30)).error().code,
            ErrorCode::kConflict);
  EXPECT_TRUE(commit(pod("b"), next, '2'));
}

TEST_F(SaveCoordinatorTest, ALateCommitThatNobodyWasFasterThanSucceeds) {
  const auto save = ask(pod("a"));
  clock.advance(seconds(300));
  EXPECT_TRUE(commit(pod("a"), save, '1'));
}

TEST_F(SaveCoordinatorTest, ACommitWhoseAnswerWasLostIsAnsweredTheSame) {
  const auto save = ask(pod("a"));
  archives.fault = [] { return FakeArchives::Fault::kLostReply; };
  EXPECT_FALSE(commit(pod("a"), save, '1'));
  archives.fault = [] { return FakeArchives::Fault::kNone; };
  const auto again = commit(pod("a"), save, '1');
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->generation, 1);
  EXPECT_TRUE(repeated_);
  // Even after others have saved on top.
  ASSERT_TRUE(commit(pod("b"), ask(pod("b")), '2'));
  EXPECT_EQ(commit(pod("a"), save, '1')->generation, 1);
  EXPECT_EQ(archive().head.manifest_digest, digest('2'));
}

TEST_F(SaveCoordinatorTest, APodWhoseAttemptWasLostGetsANewFence) {
  const auto lost = ask(pod("a"));
  const auto again = ask(pod("a"));
  EXPECT_EQ(again.decision, api::SaveDecision::kGranted);
  EXPECT_EQ(again.fence, 2);
  EXPECT_FALSE(commit(pod("a"), lost, '1'));
  EXPECT_TRUE(commit(pod("a"), again, '1'));
}

TEST_F(SaveCoordinatorTest, ANewLeaderGivesTheHolderOneFullTimeout) {
  const auto save = ask(pod("a"));
  clock.advance(seconds(29));
  CacheLocks other_locks;
  SaveCoordinator next(archives, other_locks, guard, 2, clock, seeded_random(2));
  next.take_over(archive(), seconds(30));
  EXPECT_TRUE(next.is_saving("ml", archive().metadata.name));
  clock.advance(seconds(29));
  EXPECT_EQ(ask(pod("b"), &next).decision, api::SaveDecision::kBusy);
  ASSERT_TRUE(next.renew("ml", "uid-a", save.id, save.fence, seconds(30)));
  clock.advance(seconds(20));
  EXPECT_EQ(ask(pod("b"), &next).decision, api::SaveDecision::kBusy);
  EXPECT_TRUE(next.commit(pod("a"), save.id, commit_of(save, '1')));
}

// Otherwise others would wait for a finished save.
TEST_F(SaveCoordinatorTest, ARenewalUnderANewLeaderBringsNoLockBackThatACommitHasEnded) {
  const auto save = ask(pod("a"));
  CacheLocks other_locks;
  SaveCoordinator next(archives, other_locks, guard, 2, clock, seeded_random(2));
  archives.on_get = [&] {
    archives.on_get = [] {};
    EXPECT_TRUE(next.commit(pod("a"), save.id, commit_of(save, '1')));
  };
  EXPECT_FALSE(next.renew("ml", "uid-a", save.id, save.fence, seconds(30)));
  EXPECT_FALSE(next.is_saving("ml", archive().metadata.name));
  EXPECT_EQ(ask(pod("b"), &next).decision, api::SaveDecision::kGranted);
}

TEST_F(SaveCoordinatorTest, ARenewalUnderANewLeaderIsForTheCompileCachesTimeout) {
  SaveContext patient = pod("a");
  patient.save.lock_timeout = seconds(300);
  const auto save = ask(patient);
  CacheLocks other_locks;
  SaveCoordinator next(archives, other_locks, guard, 2, clock, seeded_random(2));
  ASSERT_TRUE(next.renew("ml", "uid-a", save.id, save.fence, patient.save.lock_timeout));
  clock.advance(seconds(290));
  SaveContext other = pod("b");
  other.save.lock_timeout = seconds(300);
  EXPECT_EQ(ask(other, &next).decision, api::SaveDecision::kBusy);
}

TEST_F(SaveCoordinatorTest, ReleaseFreesTheLockAndKeepsTheFence) {
  const auto save = ask(pod("a"));
  ASSERT_TRUE(saves.release("ml", "cache", "uid-b", save.id)) << "not the holder: no error";
  EXPECT_NE(archive().lock.holder, "");
  ASSERT_TRUE(saves.release("ml", "cache", "uid-a", save.id));
  EXPECT_EQ(archive().lock.holder, "");
  EXPECT_EQ(ask(pod("b")).fence, 2);
}

TEST_F(SaveCoordinatorTest, ABlobThatIsBeingSweptIsRefusedUntilItIsOver) {
  const auto before = ask(pod("a"));
  const SaveInFlight in_flight{archive().metadata.name, before.fence};
  guard.begins("ml/cache", {digest('f')}, {in_flight});
  const auto refused = commit(pod("a"), before, '1');
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kConflict);
  EXPECT_NE(refused.error().message.find("condemned"), std::string::npos);
  guard.ends("ml/cache", {in_flight});
  EXPECT_FALSE(commit(pod("a"), before, '1')) << "it may have seen the blob before it went";
  const auto after = ask(pod("a"));
  EXPECT_TRUE(commit(pod("a"), after, '1'));
}

TEST_F(SaveCoordinatorTest, ANewLeaderTakesAllThatIsListedForTheRunningJobs) {
  const auto save = ask(pod("a"));
  guard.take_over("ml/cache", {digest('f')});
  EXPECT_FALSE(commit(pod("a"), save, '1'));
  guard.begins("ml/cache", {}, {{archive().metadata.name, save.fence}});
  EXPECT_FALSE(commit(pod("a"), save, '1'));
  EXPECT_TRUE(commit(pod("a"), ask(pod("a")), '1'));
}

TEST_F(SaveCoordinatorTest, AtMostSoManySavesOfOneVolume) {
  EXPECT_EQ(ask(pod("a", "1")).decision, api::SaveDecision::kGranted);
  const auto second = ask(pod("b", "2"));
  EXPECT_EQ(second.decision, api::SaveDecision::kGranted);
  EXPECT_EQ(ask(pod("c", "3")).reason, "too_many_saves");
  SaveContext elsewhere = pod("d", "4");
  elsewhere.store = api::VolumeRef{"ml", "claim", "another/cache"};
  EXPECT_EQ(ask(elsewhere).reason, "too_many_saves");
  elsewhere.store = api::VolumeRef{"ml", "other", "cache"};
  EXPECT_EQ(ask(elsewhere).decision, api::SaveDecision::kGranted);
  ASSERT_TRUE(commit(pod("b", "2"), second, '1'));
  EXPECT_EQ(ask(pod("c", "3")).decision, api::SaveDecision::kGranted);
}

// Two places: one namespace's savers hold both, and renew their locks forever.
TEST_F(SaveCoordinatorTest, ACrowdOfAnotherNamespaceCostsABoundedWait) {
  const auto in = [&](const std::string& ns, const std::string& name) {
    SaveContext context = pod(name, name);
    context.ns = ns;
    context.store = api::RegistryRef{.host = "r", .repository = ns + "/cache", .own = true};
    return context;
  };
  const auto first = ask(in("crowd", "a")), second = ask(in("crowd", "b"));
  EXPECT_EQ(ask(in("crowd", "c")).reason, "too_many_saves");
  const auto renew = [&] {
    for (const auto* save : {&first, &second}) {
      const std::string uid = save == &first ? "uid-a" : "uid-b";
      ASSERT_TRUE(saves.renew("crowd", uid, save->id, save->fence, seconds(30)));
    }
  };
  EXPECT_EQ(ask(in("ml", "x")).reason, "too_many_saves");
  clock.advance(seconds(5));
  renew();
  EXPECT_EQ(ask(in("crowd", "c")).reason, "too_many_saves") << "it waits for its own";
  EXPECT_EQ(ask(in("ml", "x")).decision, api::SaveDecision::kGranted);
  EXPECT_EQ(ask(in("ml", "y")).reason, "too_many_saves") << "it has its share";
}

TEST_F(SaveCoordinatorTest, AnAttemptsNonceIsCut) {
  api::SaveRequest request{.attempt = std::string(250'000, 'n'), .new_files = 1};
  ASSERT_TRUE(saves.request(pod("a"), request));
  EXPECT_LT(archive().lock.holder.size(), 200U);
  EXPECT_EQ(holder_uid(archive().lock), "uid-a");
}

TEST_F(SaveCoordinatorTest, EachGenerationSaysWhoseFilesItMayHold) {
  const auto by = [&](const std::string& name, const std::string& account) {
    SaveContext context = pod(name);
    context.service_account = account;
    context.workload = "Deployment/" + name;
    const api::ArchiveHead head = archive().head;
    context.savers[head.manifest_digest] = {head.earlier_accounts.begin(),
                                            head.earlier_accounts.end()};
    context.savers[head.manifest_digest].insert(head.service_account);
    return context;
  };
  const auto save_by = [&](const SaveContext& context, char manifest) {
    ASSERT_TRUE(commit(context, ask(context), manifest));
  };
  SaveContext first = pod("a");
  first.service_account = "dev";
  save_by(first, '1');
  EXPECT_EQ(archive().head.service_account, "dev");
  EXPECT_TRUE(archive().head.earlier_accounts.empty());
  save_by(by("b", "prod"), '2');
  EXPECT_EQ(archive().head.service_account, "prod");
  EXPECT_EQ(archive().head.workload, "Deployment/b");
  EXPECT_EQ(archive().head.earlier_accounts, std::vector<std::string>{"dev"});
  SaveContext loaded = by("c", "prod");
  loaded.refresh = true;
  loaded.loaded_manifest = digest('2');
  api::SaveRequest anew{.attempt = "n", .new_files = 1, .refresh = true};
  const auto granted = saves.request(loaded, anew);
  ASSERT_TRUE(granted);
  ASSERT_TRUE(commit(loaded, *granted, '3'));
  EXPECT_EQ(archive().head.earlier_accounts, std::vector<std::string>{"dev"})
      << "it is in the pod's directory";
}

TEST_F(SaveCoordinatorTest, WhatAnAccountSavedThatMayNotAnyMoreIsNotExtended) {
  SaveContext dev = pod("a");
  dev.service_account = "dev";
  ASSERT_TRUE(commit(dev, ask(dev), '1'));
  SaveContext prod = pod("b");
  prod.service_account = "prod";
  const auto early = ask(prod);
  EXPECT_EQ(early.parent_digest, digest('1'));
  prod.save.allowed_service_accounts = {"prod"};
  EXPECT_FALSE(commit(prod, early, '2')) << "the list came meanwhile";
  prod.save.policy = api::SavePolicy::kOnce;
  const auto anew = ask(prod);
  EXPECT_EQ(anew.decision, api::SaveDecision::kGranted) << "there is none that counts";
  EXPECT_EQ(anew.parent_digest, "");
  ASSERT_TRUE(commit(prod, anew, '2'));
  EXPECT_TRUE(archive().head.earlier_accounts.empty());
  SaveContext held = pod("c");
  held.service_account = "prod";
  held.save.allowed_service_accounts = {"prod"};
  held.savers[digest('1')] = {"dev"};
  held.loaded_manifest = digest('1');
  EXPECT_EQ(ask(held).reason, "loaded_not_allowed");
}

TEST_F(SaveCoordinatorTest, PoliciesAndAccounts) {
  SaveContext never = pod("a");
  never.save.policy = api::SavePolicy::kNever;
  EXPECT_EQ(ask(never).reason, "policy_never");
  SaveContext foreign = pod("a");
  foreign.save.allowed_service_accounts = {"builder"};
  EXPECT_EQ(ask(foreign).reason, "service_account_not_allowed");
  EXPECT_TRUE(archives.archives.empty());
  SaveContext once = pod("a");
  once.save.policy = api::SavePolicy::kOnce;
  ASSERT_TRUE(commit(once, ask(once), '1'));
  EXPECT_EQ(ask(once).reason, "saved_once");
}

TEST_F(SaveCoordinatorTest, WhatIsInTheHeadAlreadyNeedsNoSave) {
  ASSERT_TRUE(commit(pod("a"), ask(pod("a")), '1'));
  const auto answer =
      saves.request(pod("b"), {.attempt = "x", .have_digest = digest('1'), .new_files = 0});
  EXPECT_EQ(answer->decision, api::SaveDecision::kRefused);
  EXPECT_EQ(answer->reason, "already_current");
  const api::SaveRequest anew{
      .attempt = "y", .have_digest = digest('1'), .new_files = 0, .refresh = true};
  EXPECT_EQ(saves.request(pod("b"), anew)->decision, api::SaveDecision::kGranted)
      << "the mode Refresh wants it again";
  const api::SaveRequest more{.attempt = "z", .have_digest = digest('1'), .new_files = 1};
  EXPECT_EQ(saves.request(pod("b"), more)->decision, api::SaveDecision::kGranted);
}

TEST_F(SaveCoordinatorTest, AMovedTagStartsFromScratch) {
  SaveContext before = pod("a");
  before.image_id = "sha256:old";
  ASSERT_TRUE(commit(before, ask(before), '1'));
  SaveContext after = pod("b");
  after.image_id = "sha256:new";
  const auto save = ask(after);
  EXPECT_EQ(save.parent_digest, "");
  EXPECT_EQ(save.generation, 2);
  ASSERT_TRUE(saves.release("ml", "cache", "uid-b", save.id));
  EXPECT_EQ(ask(pod("c")).parent_digest, digest('1')) << "whose image is not known yet";
}

TEST_F(SaveCoordinatorTest, ADistrustedHeadIsReplacedNotExtended) {
  ASSERT_TRUE(commit(pod("a"), ask(pod("a")), '1'));
  ASSERT_TRUE(commit(pod("a"), ask(pod("a")), '2'));
  mark_suspect(archives.archives.begin()->second, digest('2'), "web", "2026-01-02T03:04:05Z");
  const auto save = ask(pod("b"));
  EXPECT_EQ(save.parent_digest, "");
  EXPECT_NE(std::find(save.condemned.begin(), save.condemned.end(), digest('2')),
            save.condemned.end())
      << "its blobs are to be written again";
  EXPECT_NE(std::find(save.condemned.begin(), save.condemned.end(), digest('f')),
            save.condemned.end())
      << "all of them, as nobody knows which is bad";
  ASSERT_TRUE(commit(pod("b"), save, '3'));
  EXPECT_EQ(archive().previous.manifest_digest, digest('1'));
  EXPECT_FALSE(is_suspect(archive()));
}

TEST_F(SaveCoordinatorTest, AHeadThatBecameSuspectMeanwhileIsNotExtended) {
  ASSERT_TRUE(commit(pod("a"), ask(pod("a")), '1'));
  const auto save = ask(pod("b"));
  ASSERT_EQ(save.parent_digest, digest('1'));
  mark_suspect(archives.archives.begin()->second, digest('1'), "web", "2026-01-02T03:04:05Z");
  const auto refused = commit(pod("b"), save, '2');
  ASSERT_FALSE(refused) << "the bad layers would live on";
  EXPECT_EQ(refused.error().code, ErrorCode::kConflict);
  EXPECT_TRUE(is_suspect(archive()));
  const auto again = ask(pod("b"));
  EXPECT_EQ(again.parent_digest, "");
  EXPECT_TRUE(commit(pod("b"), again, '2'));
}

TEST_F(SaveCoordinatorTest, ABlobThatBecameSuspectMeanwhileIsNotNamedUnlessItIsWrittenAnew) {
  SaveContext before = pod("a");
  before.image_id = "sha256:old";
  ASSERT_TRUE(commit(before, ask(before), '1'));
  SaveContext after = pod("b");
  after.image_id = "sha256:new";
  const auto save = ask(after);
  ASSERT_EQ(save.parent_digest, "") << "another image: from scratch, with a layer that is there";
  mark_suspect(archives.archives.begin()->second, digest('f'), "web", "2026-01-02T03:04:05Z");
  const auto refused = commit(after, save, '2');
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kConflict);
  EXPECT_TRUE(is_suspect(archive()));
  const auto again = ask(after);
  EXPECT_NE(std::find(again.condemned.begin(), again.condemned.end(), digest('f')),
            again.condemned.end());
  EXPECT_TRUE(commit(after, again, '2')) << "it has written that blob itself";
  EXPECT_FALSE(is_suspect(archive()));
}

TEST_F(SaveCoordinatorTest, AManifestThatMakesPodsCrashNeverBecomesTheHeadAgain) {
  ASSERT_TRUE(commit(pod("a"), ask(pod("a")), '1'));
  mark_crashing(archives.archives.begin()->second, digest('1'), {"web"}, "2026-01-02T03:04:05Z");
  const auto save = ask(pod("b"));
  const auto refused = commit(pod("b"), save, '1');
  ASSERT_FALSE(refused) << "the same bytes, written again";
  EXPECT_EQ(refused.error().code, ErrorCode::kConflict);
  EXPECT_TRUE(is_suspect(archive()));
}

TEST_F(SaveCoordinatorTest, AHeadThatIsWholeIsNotReplacedFromScratch) {
  ASSERT_TRUE(commit(pod("a"), ask(pod("a")), '1'));
  auto& now = archives.archives.begin()->second;
  mark_suspect(now, digest('1'), "web", "2026-01-02T03:04:05Z");
  const auto save = ask(pod("b"));
  ASSERT_EQ(save.parent_digest, "");
  mark_verified(now, digest('1'), "2026-01-02T03:05:05Z");  // a sweep has read it meanwhile
  const auto refused = commit(pod("b"), save, '2');
  ASSERT_FALSE(refused) << "what others saved would be gone";
  EXPECT_EQ(refused.error().code, ErrorCode::kConflict);
  EXPECT_EQ(ask(pod("b")).parent_digest, digest('1'));
  // A saver that drops the parent by itself.
  const auto dropped = ask(pod("b"));
  auto request = commit_of(dropped, '2');
  request.parent_digest.clear();
  EXPECT_EQ(saves.commit(pod("b"), dropped.id, request).error().code, ErrorCode::kConflict);
  SaveContext refreshing = pod("b");
  refreshing.refresh = true;
  EXPECT_TRUE(saves.commit(refreshing, dropped.id, request)) << "that is what Refresh is for";
}

TEST_F(SaveCoordinatorTest, GenerationsGrowAlsoPastACorruptHead) {
  ASSERT_TRUE(commit(pod("a"), ask(pod("a")), '1'));
  ASSERT_TRUE(commit(pod("a"), ask(pod("a")), '2'));
  mark_corrupt(archives.archives.begin()->second, digest('2'), "2026-01-02T03:04:05Z");
  const auto save = ask(pod("b"));
  EXPECT_GT(save.generation, 2);
  EXPECT_EQ(commit(pod("b"), save, '3')->generation, save.generation);
}

TEST_F(SaveCoordinatorTest, AnArchiveOverTheLimitIsRefusedAndTheHeadStands) {
  ASSERT_TRUE(commit(pod("a"), ask(pod("a")), '1'));
  SaveContext small = pod("b");
  small.save.max_archive_size = 99;
  const auto save = ask(small);
  const auto refused = saves.commit(small, save.id, commit_of(save, '2'));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kTooLarge);
  EXPECT_EQ(archive().head.manifest_digest, digest('1'));
  small.save.max_archive_size = 100;
  EXPECT_TRUE(saves.commit(small, save.id, commit_of(save, '2'))) << "just that many";
}

TEST_F(SaveCoordinatorTest, NonsenseIsRefused) {
  const auto save = ask(pod("a"));
  api::CommitRequest request = commit_of(save, '1');
  request.manifest_digest = "sha256:../../etc/passwd";
  EXPECT_EQ(saves.commit(pod("a"), save.id, request).error().code, ErrorCode::kInvalid);
  for (const char* id :
       {"", "x", ".1", "a.b", "a.", "a/b.1", "a.-1", "a.0", "a.1x", "a.99999999999999999999"}) {
    EXPECT_EQ(saves.commit(pod("a"), id, commit_of(save, '1')).error().code, ErrorCode::kInvalid)
        << id;
    EXPECT_FALSE(saves.renew("ml", "uid-a", id, 1, seconds(30))) << id;
  }
  EXPECT_EQ(saves.commit(pod("a"), "other.1", commit_of(save, '1')).error().code,
            ErrorCode::kConflict);
  request = commit_of(save, '1');
  request.parent_digest = digest('9');
  EXPECT_EQ(saves.commit(pod("a"), save.id, request).error().code, ErrorCode::kConflict);
}

TEST_F(SaveCoordinatorTest, TheApiServersTroubleIsAnErrorNotARefusal) {
  archives.fault = [] { return FakeArchives::Fault::kLostRequest; };
  const auto answer = saves.request(pod("a"), {.attempt = "x", .new_files = 1});
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ErrorCode::kUnavailable);
}

TEST_F(SaveCoordinatorTest, CompileTimesAddUpOnlyOnTopOfWhatWasLoaded) {
  ASSERT_TRUE(commit(pod("a"), ask(pod("a")), '1'));
  ASSERT_TRUE(commit(pod("b"), ask(pod("b")), '2'));
  EXPECT_EQ(archive().head.compile_seconds, 10) << "both compiled the same from cold";
  ASSERT_TRUE(commit(pod("b"), ask(pod("b")), '4'));
  EXPECT_EQ(archive().head.compile_seconds, 20) << "the same pod went on compiling";
  SaveContext warm = pod("c");
  warm.loaded_head = true;
  ASSERT_TRUE(commit(warm, ask(warm), '3'));
  EXPECT_EQ(archive().head.compile_seconds, 30);
}

TEST_F(SaveCoordinatorTest, AnExpiredLockIsTakenBackForASweep) {
  const auto save = ask(pod("a"));
  EXPECT_TRUE(saves.break_expired(archive(), seconds(30)).value()) << "still saving";
  clock.advance(seconds(31));
  EXPECT_FALSE(saves.break_expired(archive(), seconds(30)).value());
  EXPECT_EQ(archive().lock.holder, "");
  EXPECT_EQ(archive().lock.fence, 1);
  EXPECT_FALSE(commit(pod("a"), save, '1'));
}

TEST_F(SaveCoordinatorTest, SizesThatCannotBeMeantAreRefused) {
  const auto save = ask(pod("a"));
  const auto refused = [&](const auto& change) {
    api::CommitRequest request = commit_of(save, '1');
    change(request);
    const auto done = saves.commit(pod("a"), save.id, request);
    return !done && done.error().code == ErrorCode::kInvalid;
  };
  using Request = api::CommitRequest;
  for (auto size : {&Request::compressed_bytes, &Request::plain_bytes, &Request::files,
                    &Request::layers, &Request::left_out}) {
    EXPECT_TRUE(refused([&](Request& request) { request.*size = -1; }));
  }
  EXPECT_TRUE(refused([](Request& request) { request.compile_seconds = -1; }));
  EXPECT_TRUE(refused([](Request& request) { request.compile_seconds = std::nan(""); }));
  EXPECT_TRUE(refused([](Request& request) { request.blobs = {"../../etc/passwd"}; }));
  EXPECT_TRUE(refused([](Request& request) { request.blobs.assign(1001, digest('1')); }));
  EXPECT_FALSE(refused([](Request& request) { request.blobs.assign(1000, digest('1')); }));
}

TEST_F(SaveCoordinatorTest, AnIdIsOfTheOneWhoAskedAndOfHisFence) {
  const auto first = ask(pod("a"));
  EXPECT_FALSE(commit(pod("b"), first, '1')) << "another pod's";
  EXPECT_FALSE(archive().head.exists());
  EXPECT_FALSE(saves.renew("ml", "uid-a", first.archive + ".2", 1, seconds(30)));
  ask(pod("a"));
  CacheLocks other_locks;
  SaveCoordinator next(archives, other_locks, guard, 2, clock, seeded_random(2));
  EXPECT_FALSE(next.renew("ml", "uid-a", first.id, first.fence, seconds(30))) << "an old fence";
  EXPECT_FALSE(next.renew("ml", "uid-b", first.archive + ".2", 2, seconds(30)));
  EXPECT_TRUE(next.renew("ml", "uid-a", first.archive + ".2", 2, seconds(30)));
}

// A pod's attempts were lost on the way: its own later save is another one.
TEST_F(SaveCoordinatorTest, AnEarlierSaveOfThePodDoesNothingToItsLaterOne) {
  const auto first = ask(pod("a"));
  const auto second = ask(pod("a"));
  EXPECT_FALSE(saves.renew("ml", "uid-a", first.id, first.fence, seconds(30)));
  ASSERT_TRUE(saves.release("ml", "cache", "uid-a", first.id));
  EXPECT_NE(archive().lock.holder, "");
  EXPECT_EQ(archive().lock.fence, second.fence);
  auto request = commit_of(second, '1');
  request.fence = first.fence;
  EXPECT_FALSE(saves.commit(pod("a"), second.id, request)) << "it is the one or the other";
  EXPECT_TRUE(commit(pod("a"), second, '1'));
}

TEST_F(SaveCoordinatorTest, WhatExtendsAnotherHeadIsRefused) {
  ASSERT_TRUE(commit(pod("a"), ask(pod("a")), '1'));
  const auto save = ask(pod("b"));
  auto request = commit_of(save, '2');
  request.parent_digest = digest('9');
  EXPECT_EQ(saves.commit(pod("b"), save.id, request).error().code, ErrorCode::kConflict);
  EXPECT_EQ(archive().head.manifest_digest, digest('1'));
}

TEST_F(SaveCoordinatorTest, ADeposedLeaderTakesNoLockBackThatAnotherHasGranted) {
  ask(pod("a"));
  const auto seen = archive();
  CacheLocks other_locks;
  SaveCoordinator next(archives, other_locks, guard, 2, clock, seeded_random(2));
  next.take_over(seen, seconds(30));
  clock.advance(seconds(31));
  ASSERT_EQ(ask(pod("b"), &next).decision, api::SaveDecision::kGranted);
  EXPECT_TRUE(saves.break_expired(seen, seconds(30)).value()) << "somebody is saving";
  EXPECT_EQ(archive().lock.pod, "b");
  EXPECT_EQ(archive().lock.fence, 2);
}

TEST_F(SaveCoordinatorTest, ACommitIsAnsweredAgainToItsOwnPodAlone) {
  const auto save = ask(pod("a"));
  ASSERT_TRUE(commit(pod("a"), save, '1'));
  EXPECT_FALSE(commit(pod("b"), save, '1'));
}

TEST_F(SaveCoordinatorTest, ALeaderThatMeetsAHolderForTheFirstTimeGivesItItsTime) {
  ask(pod("a"));
  CacheLocks other_locks;
  SaveCoordinator next(archives, other_locks, guard, 2, clock, seeded_random(2));
  EXPECT_EQ(ask(pod("b"), &next).decision, api::SaveDecision::kBusy);
  clock.advance(seconds(30));
  EXPECT_EQ(ask(pod("b"), &next).decision, api::SaveDecision::kGranted);
}

TEST_F(SaveCoordinatorTest, WhoHasFallenSilentCountsNoMore) {
  ask(pod("a", "1"));
  const std::string silent = archive().metadata.name;
  ask(pod("b", "2"));
  ASSERT_TRUE(saves.is_saving("ml", silent));
  clock.advance(seconds(30));
  EXPECT_FALSE(saves.is_saving("ml", silent));
  EXPECT_EQ(ask(pod("c", "3")).decision, api::SaveDecision::kGranted);
}

TEST_F(SaveCoordinatorTest, NothingIsSavedIntoAnArchiveThatIsBeingDeleted) {
  ASSERT_TRUE(commit(pod("a"), ask(pod("a")), '1'));
  SaveContext anew = pod("b");
  anew.cache_uid = "of a CompileCache that was recreated";
  EXPECT_EQ(ask(anew).reason, "archive_being_deleted") << "the API server is about to";
  archives.archives.begin()->second.metadata.deleting = true;
  EXPECT_EQ(ask(pod("b")).reason, "archive_being_deleted");
}

TEST_F(SaveCoordinatorTest, AManifestThatIsBeingSweptIsRefusedLikeItsBlobs) {
  const auto save = ask(pod("a"));
  guard.begins("ml/cache", {digest('1')}, {});
  api::CommitRequest request = commit_of(save, '1');
  request.blobs = {digest('f')};
  const auto refused = saves.commit(pod("a"), save.id, request);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kConflict);
}

TEST_F(SaveCoordinatorTest, WhoIsSlowerThanAnotherWriterTriesAgain) {
  const auto another_writes = [&] {
    archives.fault = [&] {
      archives.fault = [] { return FakeArchives::Fault::kNone; };
      archives.archives.begin()->second.metadata.resource_version += "0";
      return FakeArchives::Fault::kNone;
    };
  };
  const auto save = ask(pod("a"));
  another_writes();
  EXPECT_TRUE(commit(pod("a"), save, '1'));
  const auto next = ask(pod("a"));
  another_writes();
  EXPECT_TRUE(saves.release("ml", "cache", "uid-a", next.id));
  EXPECT_EQ(archive().lock.holder, "");
}

}  // namespace
}  // namespace compilecache::controller
