#include "operator/archives/crash_watch.hpp"

#include <gmock/gmock.h>

#include "operator/archives/archive_trust.hpp"
#include "tests/unit/operator/agent_api_fixture.hpp"

// Archives with right digests that make applications crash.

namespace compilecache::controller {
namespace {

using test::digest;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kOfTheKey[] = "ml/transformer-1";

class CrashWatchTest : public ::testing::Test {
 protected:
  void start(const std::string& pod, const std::string& manifest, int crashes = 0) {
    watch_.loaded(kOfTheKey, manifest, "uid-" + pod);
    crash(pod, crashes);
  }
  void crash(const std::string& pod, int crashes) {
    test::crash(watch_, "uid-" + pod, pod, crashes);
  }
  [[nodiscard]] std::vector<std::string> blamed() const {
    std::vector<std::string> manifests;
    for (const Blame& blame : watch_.blame(kOfTheKey)) manifests.push_back(blame.manifest);
    return manifests;
  }

  PodLedger pods_;
  CrashWatch watch_{pods_};
};

TEST_F(CrashWatchTest, OneCrashIsNobodysFaultAndTwoPodsAreEnough) {
  start("a", "m2", 1);
  EXPECT_THAT(blamed(), IsEmpty());
  start("b", "m2", 1);
  EXPECT_THAT(blamed(), ElementsAre("m2"));
  EXPECT_THAT(watch_.blame(kOfTheKey).front().pods, ElementsAre("a", "b"));
}

TEST_F(CrashWatchTest, ForgetsWhatNobodyHasLoadedForLongest) {
  start("a", "old", 1);
  start("b", "old", 1);
  for (size_t i = 0; i < CrashWatch::kMostManifests; ++i) {
    start("x" + std::to_string(i), "m" + std::to_string(i));
  }
  EXPECT_THAT(blamed(), IsEmpty());
  start("c", "new", 1);
  start("d", "new", 1);
  EXPECT_THAT(blamed(), ElementsAre("new"));
  for (size_t i = 0; i < CrashWatch::kMostArchives; ++i) {
    const std::string number = std::to_string(i);
    watch_.loaded("theirs/" + number, "m", "uid-theirs-" + number);
  }
  EXPECT_THAT(blamed(), ElementsAre("new")) << "another namespace's take no room here";
  for (size_t i = 0; i < CrashWatch::kMostArchives; ++i) {
    const std::string number = std::to_string(i);
    watch_.loaded("ml/other-" + number, "m", "uid-ml-" + number);
  }
  EXPECT_THAT(blamed(), IsEmpty());
  crash("c", 2);
  EXPECT_THAT(blamed(), IsEmpty()) << "it is not made known again by a crash";
}

TEST_F(CrashWatchTest, OnePodThatCrashesForEverIsEnough) {
  start("a", "m2");
  for (int crashes = 1; crashes <= 2; ++crashes) crash("a", crashes);
  EXPECT_THAT(blamed(), IsEmpty());
  crash("a", 3);
  EXPECT_THAT(blamed(), ElementsAre("m2"));
}

TEST_F(CrashWatchTest, FewAmongManyThatRunAreNotEnough) {
  for (const char* pod : {"a", "b", "c"}) start(pod, "m2");
  start("d", "m2", 5);
  start("e", "m2", 1);
  EXPECT_THAT(blamed(), IsEmpty());
  crash("a", 1);
  EXPECT_THAT(blamed(), ElementsAre("m2"));
}

TEST_F(CrashWatchTest, AnApplicationThatCrashesWithoutItTooIsItsOwnFault) {
  start("cold-1", "", 1);
  start("cold-2", "", 1);
  EXPECT_THAT(blamed(), IsEmpty()) << "they have loaded nothing";
  start("a", "m2", 4);
  start("b", "m2", 4);
  EXPECT_THAT(blamed(), IsEmpty());
  EXPECT_TRUE(watch_.acquits(kOfTheKey, "m2"));
}

TEST_F(CrashWatchTest, ASuspicionEndsWhenThoseWithoutItCrashAsWell) {
  start("a", "m2", 1);
  start("b", "m2", 1);
  start("c", "m1", 1);
  EXPECT_FALSE(watch_.acquits(kOfTheKey, "m2")) << "one is not enough for this either";
  start("d", "m1", 1);
  EXPECT_TRUE(watch_.acquits(kOfTheKey, "m2"));
  EXPECT_THAT(blamed(), IsEmpty());
}

TEST_F(CrashWatchTest, WhatGonePodsDidCountsAndTheSamePodOnlyOnce) {
  start("a", "m2", 1);
  pods_.end("ml", "uid-a");
  crash("a", 2);
  for (int i = 0; i < 5; ++i) start("b", "m2", 1);
  EXPECT_THAT(blamed(), ElementsAre("m2")) << "both of the two pods";
  EXPECT_EQ(watch_.manifest_of("uid-b"), "m2");
  EXPECT_EQ(watch_.manifest_of("uid-a"), "");
  watch_.forget(kOfTheKey);
  EXPECT_THAT(blamed(), IsEmpty());
}

TEST_F(CrashWatchTest, AnEndCountsAsWhatItWasHoweverOftenTheContainerHasEnded) {
  start("a", "m2");
  for (int end = 1; end <= 5; ++end) watch_.seen({"uid-a", "a", {{"app", end, false}}});
  watch_.seen({"uid-a", "a", {{"app", 6, true}}});
  watch_.seen({"uid-a", "a", {{"app", 6, true}}});
  EXPECT_THAT(blamed(), IsEmpty()) << "five were killed, one crashed";
  watch_.seen({"uid-a", "a", {{"app", 9, true}}});
  EXPECT_THAT(blamed(), IsEmpty()) << "nobody saw how the two between ended";
  watch_.seen({"uid-a", "a", {{"app", 9, true}, {"other", 1, true}}});
  EXPECT_THAT(blamed(), ElementsAre("m2"));
}

// A group of eight whose first members loaded the manifest, and the others nothing.
class CrashOfGroups : public CrashWatchTest {
 protected:
  // Each start has pods of its own at the same places.
  void start_group(const std::string& group, int warm, int crashes, const std::string& start = "") {
    for (int place = 0; place < 8; ++place) {
      const std::string pod = group + start + "-" + std::to_string(place);
      watch_.loaded(kOfTheKey, place < warm ? "m2" : "", "uid-" + pod,
                    {group, std::to_string(place)});
    }
    for (int place = 0; place < 8; ++place)
      crash(group + start + "-" + std::to_string(place), crashes);
  }
};

TEST_F(CrashOfGroups, MembersOfOneGroupAreOneWitness) {
  start_group("a", 8, 1);
  EXPECT_THAT(blamed(), IsEmpty()) << "one group aborted once";
  start_group("b", 8, 1);
  EXPECT_THAT(blamed(), ElementsAre("m2"));
}

TEST_F(CrashOfGroups, ColdMembersOfAGroupExcuseNothing) {
  for (const int warm : {8, 7, 6, 1}) {
    SCOPED_TRACE(warm);
    watch_.forget(kOfTheKey);
    start_group("a" + std::to_string(warm), warm, 1);
    EXPECT_THAT(blamed(), IsEmpty());
    start_group("b" + std::to_string(warm), warm, 1);
    EXPECT_THAT(blamed(), ElementsAre("m2"));
    EXPECT_FALSE(watch_.acquits(kOfTheKey, "m2"));
  }
  start_group("cold-1", 0, 1);
  start_group("cold-2", 0, 1);
  EXPECT_TRUE(watch_.acquits(kOfTheKey, "m2")) << "a group crashes without it as well";
}

TEST_F(CrashOfGroups, AGroupThatIsStartedAgainIsAnotherWitness) {
  start_group("a", 7, 1);
  EXPECT_THAT(blamed(), IsEmpty());
  start_group("a", 7, 1, "-again");
  EXPECT_THAT(blamed(), ElementsAre("m2"));
}

TEST_F(CrashOfGroups, OneThatCrashesForEverInItsPlaceIsEnough) {
  start_group("a", 7, 3);
  EXPECT_THAT(blamed(), ElementsAre("m2"));
}

class Hangs : public CrashWatchTest {
 protected:
  void runs(const std::string& pod, bool ready = false) {
    watch_.seen({.uid = "uid-" + pod, .name = pod, .running = true, .ready = ready, .now = now_});
  }
  std::vector<std::string> blamed_now() {
    watch_.look(kOfTheKey, now_);
    return blamed();
  }
  Monotonic now_{std::chrono::hours(1)};
};

TEST_F(Hangs, PodsThatNeverBecomeReadyAfterALoadAreEvidenceAsThoseThatCrash) {
  using std::chrono::minutes;
  start("cold", "");
  runs("cold");
  now_ += minutes(4);
  runs("cold", true);
  for (const char* pod : {"a", "b"}) {
    start(pod, "m2");
    runs(pod);
  }
  now_ += minutes(14);
  EXPECT_THAT(blamed_now(), IsEmpty());
  now_ += minutes(2);
  ASSERT_THAT(blamed_now(), ElementsAre("m2"));
  EXPECT_TRUE(watch_.blame(kOfTheKey).front().hang);
  EXPECT_THAT(watch_.blame(kOfTheKey).front().pods, ElementsAre("a", "b"));
  runs("a", true);
  EXPECT_THAT(blamed_now(), IsEmpty()) << "it was slow";
}

TEST_F(Hangs, OneThatWasDeletedBecauseItHungCounts) {
  using std::chrono::minutes;
  start("cold", "");
  runs("cold", true);
  for (const char* pod : {"a", "b"}) {
    start(pod, "m2");
    runs(pod);
    now_ += minutes(16);
    watch_.gone("uid-" + std::string(pod), now_);
    pods_.end("ml", "uid-" + std::string(pod));
  }
  EXPECT_THAT(blamed_now(), ElementsAre("m2"));
}

TEST_F(Hangs, SlowApplicationsHaveTheirTime) {
  using std::chrono::minutes;
  start("cold", "");
  runs("cold");
  now_ += minutes(20);
  runs("cold", true);
  for (const char* pod : {"a", "b"}) {
    start(pod, "m2");
    runs(pod);
  }
  now_ += minutes(59);
  EXPECT_THAT(blamed_now(), IsEmpty()) << "others took 20 minutes";
  now_ += minutes(2);
  EXPECT_THAT(blamed_now(), ElementsAre("m2"));
}

TEST_F(Hangs, WhereNoPodIsEverReadyTheArchiveIsNotTheCause) {
  for (const char* pod : {"a", "b"}) {
    start(pod, "m2");
    runs(pod);
  }
  for (const char* pod : {"c", "d"}) {
    start(pod, "");
    runs(pod);
  }
  now_ += std::chrono::hours(2);
  EXPECT_THAT(blamed_now(), IsEmpty());
}

TEST_F(CrashWatchTest, WhatNobodyCanHaveLoadedIsNotKept) {
  start("a", std::string(10'000, 'm'), 3);
  EXPECT_THAT(blamed(), IsEmpty());
  EXPECT_EQ(watch_.manifest_of("uid-a"), "");
}

TEST(PodViewEnds, AreThoseOfTheChosenContainersAndCrashesByTheirOwnFault) {
  PodView pod;
  auto injection = std::make_shared<api::InjectionStatus>();
  injection->containers = {"app"};
  pod.injection = injection;
  const auto with = [&](const ContainerView& container) {
    pod.containers = std::make_shared<const std::vector<ContainerView>>(std::vector{container});
    return pod.ends();
  };
  const auto ended = [&](int code, const char* reason = "Error") {
    const auto ends = with({.name = "app", .ended_reason = reason, .exit_code = code});
    return ends.size() == 1 && ends[0].crash;
  };
  using Ends = std::vector<ContainerEnd>;
  EXPECT_EQ(with({.name = "app", .running = true}), Ends());
  EXPECT_EQ(with({.name = "app"}), Ends()) << "waits for its image";
  EXPECT_EQ(with({.name = "other", .ended_reason = "Error", .exit_code = 139}), Ends());
  EXPECT_EQ(with({.name = "app", .ended_reason = "Error", .exit_code = 139, .restarts = 4}),
            (Ends{{"app", 5, true}}))
      << "the fifth end, it waits to be restarted";
  EXPECT_EQ(with({.name = "app",
                  .running = true,
                  .ended_reason = "Error",
                  .exit_code = 139,
                  .restarts = 5}),
            (Ends{{"app", 5, true}}))
      << "the same end, it runs again";
  EXPECT_TRUE(ended(1));
  EXPECT_FALSE(ended(0, "Completed"));
  EXPECT_FALSE(ended(137)) << "killed";
  EXPECT_FALSE(ended(143)) << "told to end";
  EXPECT_FALSE(ended(1, "OOMKilled")) << "a process of it";
  EXPECT_FALSE(ended(128, "StartError")) << "it never ran";
  pod.deleting = true;
  EXPECT_FALSE(ended(1)) << "on SIGTERM";
  pod.deleting = false;
  pod.disrupted = true;
  EXPECT_FALSE(ended(1)) << "the cluster ended it";
}

class CrashTrust : public test::AgentApiTest {
 protected:
  // As the controller does.
  void judge() {
    for (const Blame& blame : crashes.blame(archive().metadata.key())) {
      ASSERT_TRUE(registry.crashing(archive(), blame));
      stats.add_crashing("ml/transformer", blame.manifest);
    }
  }
  // The archive that "b" loaded: of the first image.
  [[nodiscard]] std::string report_of_b() const {
    return stats.archive_of("ml/transformer", "uid-b");
  }
  api::SaveAnswer ask(const std::string& pod, api::SaveRequest request = {}) {
    request.cache = "transformer";
    request.attempt = "1";
    request.new_files = 1;
    return call<api::SaveAnswer>("/v1/saves", pod, request);
  }
  [[nodiscard]] std::string suspicion() const {
    const auto* condition = api::find_condition(archive().conditions, api::kSuspectCondition);
    return condition == nullptr ? "" : condition->status + " " + condition->reason;
  }
};

TEST_F(CrashTrust, TheGenerationBeforeTakesItsPlaceUntilAnotherIsSaved) {
  ASSERT_EQ(save("a", '1'), 200);
  ASSERT_EQ(save("a", '2'), 200);
  report_loaded("b", api::Outcome::kSuccess, api::Match::kExact);
  test::crash(crashes, "uid-b", "b", 3);
  judge();
  EXPECT_EQ(suspicion(), "True PodsCrashed");
  EXPECT_THAT(api::find_condition(archive().conditions, api::kSuspectCondition)->message,
              HasSubstr("pods crashed (b) that had loaded " + digest('2')));
  EXPECT_EQ(load("c").manifest_digest, digest('1'));

  EXPECT_THAT(begin_sweep().check, IsEmpty()) << "its bytes are right: reading them tells nothing";
  EXPECT_THAT(begin_sweep().distrusted, ::testing::Contains(digest('2'))) << "not in the index";
  end_sweep("12", {}, {digest('2')});
  EXPECT_EQ(suspicion(), "True PodsCrashed");

  const auto refused = call<api::SaveAnswer>(
      "/v1/saves", "b", api::SaveRequest{.cache = "transformer", .attempt = "1", .new_files = 1});
  EXPECT_EQ(refused.reason, "loaded_suspect") << "the bad file is in this pod's directory";
  ASSERT_EQ(save("c", '3'), 200);
  EXPECT_EQ(suspicion(), "False SavedAnew");
  EXPECT_EQ(load("b").manifest_digest, digest('3'));
}

TEST_F(CrashTrust, WhatMakesPodsCrashIsNotSavedAgainAfterTheNextSave) {
  ASSERT_EQ(save("a", '1'), 200);
  report_loaded("b", api::Outcome::kSuccess, api::Match::kExact);
  test::crash(crashes, "uid-b", "b", 3);
  judge();
  ASSERT_EQ(save("c", '3'), 200);
  ASSERT_EQ(suspicion(), "False SavedAnew");
  EXPECT_EQ(ask("b").reason, "loaded_suspect") << "it runs on, with the bad file";
  write_status();
  EXPECT_THAT(cache.status.crashing, ElementsAre(digest('1'))) << "for the next leader";
  EXPECT_THAT(begin_sweep().distrusted, ::testing::Contains(digest('1')))
      << "nor does the volume's index name it again";
}

TEST_F(CrashTrust, ANewLeaderBelievesWhatThePodSaysThatItLoaded) {
  ASSERT_EQ(save("a", '1'), 200);
  report_loaded("b", api::Outcome::kSuccess, api::Match::kExact);
  test::crash(crashes, "uid-b", "b", 3);
  judge();
  pods.drop<StartedPod>("uid-b");  // what a new leader knows of it
  EXPECT_EQ(ask("b", {.have_digest = digest('1')}).reason, "loaded_suspect");
  EXPECT_EQ(ask("b", {.loaded_digest = digest('1')}).reason, "loaded_suspect");
  EXPECT_EQ(suspicion(), "True PodsCrashed");
}

TEST_F(CrashTrust, WhatMakesPodsOfAnotherImageCrashIsNotSavedUnderTheirKey) {
  cache.spec.key = {"GPUProduct", "Image"};
  put_cache();
  for (const char* name : {"a", "b", "c"}) add_pod(name);
  ASSERT_EQ(save("a", '1'), 200);
  image = "torch:2";
  add_pod("b");
  ASSERT_EQ(load("b").match, api::Match::kCompatible);
  report_loaded("b", api::Outcome::kSuccess, api::Match::kCompatible);
  // Granted before it is known.
  const auto granted = ask("b", {.loaded_digest = digest('1')});
  ASSERT_EQ(granted.decision, api::SaveDecision::kGranted);
  ASSERT_NE(granted.archive, report_of_b());
  test::crash(crashes, "uid-b", "b", 3);
  for (const Blame& blame : crashes.blame("ml/" + report_of_b())) {
    ASSERT_TRUE(registry.crashing(archives.get("ml", report_of_b()).value(), blame));
  }
  const api::CommitRequest commit{.fence = granted.fence,
                                  .loaded_digest = digest('1'),
                                  .manifest_digest = digest('2'),
                                  .blobs = {digest('2')}};
  EXPECT_EQ(send("POST", "/v1/saves/" + granted.id + "/commit", "b", api::dump(commit)).status,
            409);
  EXPECT_EQ(ask("b").reason, "loaded_suspect");
}

TEST_F(CrashTrust, AnArchiveThatIsAcquittedIsHandedOutAgain) {
  ASSERT_EQ(save("a", '1'), 200);
  report_loaded("b", api::Outcome::kSuccess, api::Match::kExact);
  test::crash(crashes, "uid-b", "b", 3);
  judge();
  EXPECT_EQ(load("c").reason, "suspect");
  ASSERT_TRUE(registry.acquitted(archive()));
  EXPECT_EQ(suspicion(), "False CrashWithoutItToo");
  EXPECT_EQ(load("c").manifest_digest, digest('1'));
}

}  // namespace
}  // namespace compilecache::controller
