#include <thread>

#include "tests/unit/operator/agent_api_fixture.hpp"

// Rights of callers, and the guards between a commit and a sweep: one test for each
// check.

namespace compilecache::controller {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using test::digest;

class Guards : public test::AgentApiTest {
 protected:
  Guards() {
    // The blobs of 'f' are garbage, and known as such for long enough.
    settings.sweep.grace = minutes(10);
    stats.set_condemned("ml/transformer", {{digest('f'), format_time(clock.wall())}});
    write_status();
    clock.advance(hours(1));
  }
  api::SaveAnswer ask(const std::string& pod) {
    return call<api::SaveAnswer>(
        "/v1/saves", pod, api::SaveRequest{.cache = "transformer", .attempt = "1", .new_files = 1});
  }
  // A commit that names a blob which a sweep may delete.
  int commit(const std::string& pod, const api::SaveAnswer& granted) {
    return send("POST", "/v1/saves/" + granted.id + "/commit", pod,
                api::dump(api::CommitRequest{.fence = granted.fence,
                                             .parent_digest = granted.parent_digest,
                                             .manifest_digest = digest('1'),
                                             .blobs = {digest('1'), digest('f')}}))
        .status;
  }
  // The first page of an inventory.
  void tell_page(const std::vector<api::StoredBlob>& inventory, const std::string& up_to) {
    api::SweepRequest page{.cache = "transformer", .phase = api::SweepPhase::kInventory};
    page.inventory = api::Inventory{.blobs = inventory, .up_to = up_to};
    EXPECT_EQ(send("POST", "/v1/sweeps", "job", api::dump(page)).status, 200);
  }
  // Another replica leads now; the CompileCache's status is what the one before has written.
  void change_leader() {
    next = std::make_unique<NextLeader>(*this);
    next->agent_api.take_over();
  }
  struct NextLeader {
    explicit NextLeader(Guards& test)
        : saves(test.archives, locks, guard, 50, test.clock, seeded_random(2)),
          registry(test.archives, seconds(5), test.clock),
          agent_api({test.view, test.auth, saves, locks, guard, test.archives, registry,
                     test.traffic, crashes, stats, pods, test.metrics, test.events},
                    test.settings, {}, test.clock) {
      stats.seed("ml/transformer", test.cache.status);
    }
    CacheLocks locks;
    SweepGuard guard;
    SaveCoordinator saves;
    ArchiveRegistry registry;
    PodLedger pods;
    CrashWatch crashes{pods};
    CacheStats stats{32, pods};
    AgentApi agent_api;
  };
  int next_leader(const std::string& path, const std::string& pod, const std::string& body) {
    http::Request request;
    request.method = "POST";
    request.path = path;
    request.body = body;
    request.headers = {{"Authorization", "Bearer " + pod}};
    last_answer = next->agent_api.answer(request);
    return last_answer.status;
  }
  std::unique_ptr<NextLeader> next;
  http::Response last_answer;
};

TEST_F(Guards, ASaveUnderWayMayNotNameWhatASweepWasToldToDelete) {
  const auto granted = ask("a");
  ASSERT_EQ(begin_sweep().deletable, std::vector<std::string>{digest('f')});
  EXPECT_EQ(commit("a", granted), 409) << "the Job is deleting it";
  end_sweep("");
  EXPECT_EQ(commit("a", granted), 409) << "it may have seen the blob before it went";
  const auto later = ask("a");
  EXPECT_EQ(commit("a", later), 200) << "it sees for itself what is there";
}

TEST_F(Guards, ASaveThatWasUnderWayWhenTheNextJobBeganMayNotEither) {
  const auto granted = ask("a");
  ASSERT_EQ(begin_sweep().deletable.size(), 1U);
  stats.set_condemned("ml/transformer", {});
  ASSERT_TRUE(begin_sweep().deletable.empty());  // the first one died
  EXPECT_EQ(commit("a", granted), 409);
}

TEST_F(Guards, WhatIsThereAgainAfterItWasToBeDeletedGetsANewGrace) {
  ASSERT_EQ(begin_sweep().deletable.size(), 1U);
  end_sweep("f");  // a save has written it meanwhile
  ASSERT_EQ(status().condemned.size(), 1U);
  EXPECT_EQ(status().condemned[0].since, format_time(clock.wall()));
}

TEST_F(Guards, WhatIsGoneStaysListedWhileASaveMayCountOnIt) {
  const auto granted = ask("a");
  ASSERT_EQ(begin_sweep().deletable.size(), 1U);
  end_sweep("");
  EXPECT_EQ(status().condemned.size(), 1U);
  ASSERT_EQ(send("DELETE", "/v1/saves/" + granted.id, "a").status, 200);
  begin_sweep();
  end_sweep("");
  EXPECT_TRUE(status().condemned.empty());
}

TEST_F(Guards, ANewLeaderRefusesWhatTheStatusListsForAJobThatItDidNotStart) {
  const auto granted = ask("a");
  change_leader();
  EXPECT_EQ(next_leader("/v1/saves/" + granted.id + "/commit", "a",
                        api::dump(api::CommitRequest{.fence = granted.fence,
                                                     .manifest_digest = digest('1'),
                                                     .blobs = {digest('f')}})),
            409);
}

TEST_F(Guards, ANewLeaderGivesTheHolderOfALockItsTime) {
  ask("a");
  clock.advance(seconds(1));
  change_leader();
  EXPECT_TRUE(next->saves.is_saving("ml", archive().metadata.name)) << "not to be collected";
  ASSERT_EQ(next_leader("/v1/saves", "b",
                        api::dump(api::SaveRequest{
                            .cache = "transformer", .attempt = "2", .new_files = 1})),
            200);
  EXPECT_EQ(api::parse<api::SaveAnswer>(last_answer.body)->reason, "locked");
}

TEST_F(Guards, ANewLeaderLetsNothingBeDeletedUntilWhatTheOneBeforeLetThroughIsThere) {
  change_leader();
  const std::string begin =
      api::dump(api::SweepRequest{.cache = "transformer", .phase = api::SweepPhase::kBegin});
  ASSERT_EQ(next_leader("/v1/sweeps", "job", begin), 200);
  EXPECT_TRUE(api::parse<api::SweepAnswer>(last_answer.body)->deletable.empty());
  clock.advance(minutes(9));
  ASSERT_EQ(next_leader("/v1/sweeps", "job", begin), 200);
  EXPECT_TRUE(api::parse<api::SweepAnswer>(last_answer.body)->deletable.empty())
      << "by its own clock it was condemned an hour ago";
  clock.advance(minutes(1));
  ASSERT_EQ(next_leader("/v1/sweeps", "job", begin), 200);
  EXPECT_EQ(api::parse<api::SweepAnswer>(last_answer.body)->deletable.size(), 1U);
}

// Whose clock was behind: the head is not as old as it says.
TEST_F(Guards, ANewLeaderMissesNoBlobOfAHeadThatMayBeYoung) {
  ASSERT_EQ(save("a", '1'), 200);
  archives.archives.begin()->second.head.saved_at = format_time(clock.wall() - hours(1));
  change_leader();
  const auto sweep_finds_nothing = [&] {
    for (const auto phase : {api::SweepPhase::kBegin, api::SweepPhase::kEnd}) {
      const api::SweepRequest request{
          .cache = "transformer", .phase = phase, .inventory = api::Inventory()};
      EXPECT_EQ(next_leader("/v1/sweeps", "job", api::dump(request)), 200);
    }
  };
  sweep_finds_nothing();
  EXPECT_FALSE(is_suspect(archive())) << "a network file system may show it late";
  clock.advance(minutes(2));
  sweep_finds_nothing();
  EXPECT_TRUE(is_suspect(archive()));
}

TEST_F(Guards, NothingIsDeletedBeforeTheLongestLoadIsOver) {
  cache.spec.load.timeout = hours(3);
  put_cache();
  EXPECT_TRUE(begin_sweep().deletable.empty()) << "a loader may still read it";
  clock.advance(hours(3));
  EXPECT_EQ(begin_sweep().deletable.size(), 1U);
}

// Each in the middle of the other: what the one has read is no longer so when it writes. The other
// thread is given time to do its worst; where the lock holds it back it goes on afterwards.
TEST_F(Guards, NoCommitComesBetweenWhatASweepReadsAndWhatItTells) {
  const auto granted = ask("a");
  std::thread other;
  std::atomic<int> status{0};
  archives.on_list = [&] {
    archives.on_list = [] {};
    other = std::thread([&] { status = commit("a", granted); });
    for (int i = 0; i < 200 && status == 0; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  };
  const auto begun = begin_sweep();
  other.join();
  EXPECT_TRUE(status == 409 || begun.deletable.empty())
      << "a head names a blob that the Job deletes";
}

TEST_F(Guards, NoSweepBeginsBetweenACommitsCheckAndItsWrite) {
  const auto granted = ask("a");
  std::thread other;
  std::atomic<bool> done{false};
  std::vector<std::string> deletable;
  archives.fault = [&] {
    archives.fault = [] { return test::FakeArchives::Fault::kNone; };
    other = std::thread([&] {
      deletable = begin_sweep().deletable;
      done = true;
    });
    for (int i = 0; i < 200 && !done; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return test::FakeArchives::Fault::kNone;
  };
  const int status = commit("a", granted);
  other.join();
  EXPECT_TRUE(status == 409 || deletable.empty()) << "a head names a blob that the Job deletes";
}

TEST_F(Guards, ASuspectGenerationBeforeTheHeadIsNotKept) {
  ASSERT_EQ(save("a", '1'), 200);
  ASSERT_EQ(save("a", '2'), 200);
  auto& now = archives.archives.begin()->second;
  mark_suspect(now, digest('1'), "web", "2026-01-02T03:04:05Z");
  mark_suspect(now, digest('2'), "web", "2026-01-02T03:04:05Z");
  show(now);
  EXPECT_EQ(load("c").decision, api::LoadDecision::kNone) << "neither is handed out";
  ASSERT_EQ(save("b", '3'), 200);
  EXPECT_FALSE(archive().previous.exists()) << "nor is the bad one handed out later";
}

TEST_F(Guards, OnlyAJobsPodSweeps) {
  for (const bool job : {false, true}) {
    PodView pod = *stores.sweep_pods.get("ml/job");
    pod.owner = std::make_shared<const OwnerView>(
        OwnerView{"batch/v1", job ? "Job" : "ReplicaSet", "x", "j1"});
    stores.sweep_pods.upsert("ml/job", std::make_shared<const PodView>(pod));
    const std::string begin =
        api::dump(api::SweepRequest{.cache = "transformer", .phase = api::SweepPhase::kBegin});
    EXPECT_EQ(send("POST", "/v1/sweeps", "job", begin).status, job ? 200 : 403);
    EXPECT_EQ(send("POST", "/v1/sweeps", "a", begin).status, 403);
  }
  PodView bare = *stores.sweep_pods.get("ml/job");
  bare.owner = nullptr;
  stores.sweep_pods.upsert("ml/job", std::make_shared<const PodView>(bare));
  EXPECT_EQ(
      send("POST", "/v1/sweeps", "job",
           api::dump(api::SweepRequest{.cache = "transformer", .phase = api::SweepPhase::kBegin}))
          .status,
      403)
      << "a label alone is anybody's to set";
}

// Anyone who may create Jobs in the namespace may set the label, too.
TEST_F(Guards, AJobThatTheOperatorDidNotCreateIsNotBelieved) {
  ASSERT_EQ(save("a", '1'), 200);
  cache.spec.storage = {.claim_name = "claim", .copy_from = api::CopySource{.cache = "old"}};
  put_cache();
  PodView forged = *stores.sweep_pods.get("ml/job");
  forged.owner =
      std::make_shared<const OwnerView>(OwnerView{"batch/v1", "Job", "sweep-1", "theirs"});
  stores.sweep_pods.upsert("ml/job", std::make_shared<const PodView>(forged));
  api::SweepRequest lie{.cache = "transformer", .phase = api::SweepPhase::kEnd};
  lie.corrupt = {digest('1')};
  const auto response = send("POST", "/v1/sweeps", "job", api::dump(lie));
  EXPECT_EQ(response.status, 403);
  EXPECT_NE(response.body.find("no sweep Job that this operator created"), std::string::npos);
  EXPECT_EQ(copy({found_archive('7', "torch:2")}), 403);
  EXPECT_EQ(send("POST", "/v1/registry-token", "job", R"({"push": true})").status, 403);
  EXPECT_EQ(archives.archives.size(), 1U);
  EXPECT_EQ(load("b").manifest_digest, digest('1')) << "the head stands";
}

TEST_F(Guards, AVerdictCountsOnlyOnWhatTheSweepWasToldToCheck) {
  ASSERT_EQ(save("a", '1'), 200);
  EXPECT_TRUE(begin_sweep().check.empty());
  end_sweep("1", {digest('1')});
  EXPECT_EQ(load("b").manifest_digest, digest('1')) << "nobody has doubted it";
  report_loaded("b", api::Outcome::kError, std::nullopt, digest('1'));
  EXPECT_EQ(load("c").decision, api::LoadDecision::kNone);
  end_sweep("1", {}, {digest('1')});
  EXPECT_EQ(load("c").decision, api::LoadDecision::kNone) << "the Job had begun before";
  EXPECT_EQ(begin_sweep().check, std::vector<std::string>{digest('1')});
  end_sweep("1", {}, {digest('1')});
  EXPECT_EQ(load("c").manifest_digest, digest('1'));
}

// Another leader may have given the Job its list.
TEST_F(Guards, AVerdictOnWhatWaitsToBeCheckedCountsUnderANewLeader) {
  ASSERT_EQ(save("a", '1'), 200);
  report_loaded("b", api::Outcome::kError, std::nullopt, digest('1'));
  end_sweep("1", {digest('1')});
  EXPECT_TRUE(is_corrupt(archive()));
}

// The next leader would not know of it, and let another Job run beside it.
TEST_F(Guards, AJobThatTheStatusDoesNotNameYetDeletesNothing) {
  cache.status.condemned = {{digest('x'), "2019-01-01T00:00:00Z"}};
  stats.set_condemned("ml/transformer", cache.status.condemned);
  put_cache();
  clock.advance(minutes(20));
  EXPECT_EQ(begin_sweep().deletable, std::vector<std::string>{digest('x')});
  cache.status.sweep_job = "j0";
  put_cache();
  created = "j1";
  EXPECT_TRUE(begin_sweep().deletable.empty());
}

TEST_F(Guards, ATokenIsNotServedForAPodThatHasOnlyItsName) {
  const auto namesake = [&](const std::string& uid) {
    fetched = *stores.pods.get("ml/a");
    fetched->name = "young";
    fetched->uid = uid;
  };
  const std::string body = api::dump(api::LoadRequest{.cache = "transformer"});
  namesake("uid-young");
  EXPECT_EQ(send("POST", "/v1/load", "young", body).status, 200) << "the view lacks it so far";
  namesake("uid-of-the-next-one");
  EXPECT_EQ(send("POST", "/v1/load", "young", body).status, 403);
}

TEST_F(Guards, APodDoesNothingToTheArchiveOfAnotherCompileCache) {
  ASSERT_EQ(save("a", '1'), 200);
  api::CompileCacheArchive theirs = archive();
  theirs.metadata.name = "zother-1";
  theirs.cache = "zother";
  theirs.lock = {"uid-a/1", "a", 7, ""};
  archives.archives["ml/zother-1"] = theirs;
  show(theirs);
  api::LoadedReport report{
      .cache = "transformer", .outcome = api::Outcome::kError, .reason = "corrupt"};
  report.archive = "zother-1";
  report.corrupt_digest = digest('1');
  EXPECT_EQ(send("POST", "/v1/loaded", "b", api::dump(report)).status, 200);
  EXPECT_FALSE(is_suspect(archives.archives.at("ml/zother-1")));
  EXPECT_EQ(send("POST", "/v1/saves/zother-1.7/commit", "a",
                 api::dump(api::CommitRequest{.fence = 7,
                                              .parent_digest = digest('1'),
                                              .manifest_digest = digest('2'),
                                              .blobs = {digest('2')}}))
                .status,
            409);
  EXPECT_EQ(archives.archives.at("ml/zother-1").head.manifest_digest, digest('1'));
}

TEST_F(Guards, AJobSweepsTheCompileCacheOfItsLabelAlone) {
  EXPECT_EQ(send("POST", "/v1/sweeps", "job",
                 api::dump(api::SweepRequest{.cache = "another", .phase = api::SweepPhase::kBegin}))
                .status,
            403);
}

TEST_F(Guards, WhatIsThereAgainInAPageGetsANewGrace) {
  ASSERT_EQ(begin_sweep().deletable.size(), 1U);
  tell_page({{digest('f'), 1}}, digest('f'));
  ASSERT_EQ(status().condemned.size(), 1U);
  EXPECT_EQ(status().condemned[0].since, format_time(clock.wall()));
}

TEST_F(Guards, WhatIsGoneFromAPageStaysListedWhileASaveMayCountOnIt) {
  ask("a");
  ASSERT_EQ(begin_sweep().deletable.size(), 1U);
  tell_page({}, digest('f'));
  EXPECT_EQ(status().condemned.size(), 1U);
}

TEST_F(Guards, AHeadThatIsWholeIsReplacedByAPodOfModeRefreshAlone) {
  ASSERT_EQ(save("a", '1'), 200);
  const auto replace = [&](const std::string& pod) {
    const auto granted = ask(pod);
    return send(
               "POST", "/v1/saves/" + granted.id + "/commit", pod,
               api::dump(api::CommitRequest{
                   .fence = granted.fence, .manifest_digest = digest('2'), .blobs = {digest('2')}}))
        .status;
  };
  EXPECT_EQ(replace("b"), 409) << "what others saved would be gone";
  mode = api::Mode::kRefresh;
  add_pod("b");
  EXPECT_EQ(replace("b"), 200);
}

}  // namespace
}  // namespace compilecache::controller
