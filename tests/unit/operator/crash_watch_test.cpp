#include "operator/crash_watch.hpp"

#include <gmock/gmock.h>

#include "operator/archive_trust.hpp"
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
  void crash(const std::string& pod, int crashes) { watch_.seen({"uid-" + pod, pod, crashes}); }
  [[nodiscard]] std::vector<std::string> blamed() const {
    std::vector<std::string> manifests;
    for (const Blame& blame : watch_.blame(kOfTheKey)) manifests.push_back(blame.manifest);
    return manifests;
  }

  CrashWatch watch_;
};

TEST_F(CrashWatchTest, OneCrashIsNobodysFaultAndTwoPodsAreEnough) {
  start("a", "m2", 1);
  EXPECT_THAT(blamed(), IsEmpty());
  start("b", "m2", 1);
  EXPECT_THAT(blamed(), ElementsAre("m2"));
  EXPECT_THAT(watch_.blame(kOfTheKey).front().pods, ElementsAre("a", "b"));
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
  watch_.gone("uid-a");
  crash("a", 2);
  start("b", "m2", 1);
  start("b", "m2", 1);
  EXPECT_THAT(blamed(), ElementsAre("m2"));
  EXPECT_EQ(watch_.manifest_of("uid-b"), "m2");
  EXPECT_EQ(watch_.manifest_of("uid-a"), "");
  watch_.forget(kOfTheKey);
  EXPECT_THAT(blamed(), IsEmpty());
}

TEST(PodViewCrashes, AreThoseOfTheChosenContainersByTheirOwnFault) {
  PodView pod;
  auto injection = std::make_shared<api::InjectionStatus>();
  injection->containers = {"app"};
  pod.injection = injection;
  const auto with = [&](const char* name, int code, int restarts) {
    pod.containers = std::make_shared<const std::vector<ContainerView>>(
        std::vector{ContainerView{.name = name, .exit_code = code, .restarts = restarts}});
    return pod.crashes();
  };
  EXPECT_EQ(with("app", 139, 4), 4);
  EXPECT_EQ(with("app", 1, 0), 1) << "a pod that is not restarted";
  EXPECT_EQ(with("app", 0, 4), 0);
  EXPECT_EQ(with("app", 137, 4), 0) << "killed";
  EXPECT_EQ(with("app", 143, 4), 0) << "told to end";
  EXPECT_EQ(with("other", 139, 4), 0);
}

class CrashTrust : public test::AgentApiTest {
 protected:
  // As the controller does.
  void judge() {
    for (const Blame& blame : crashes.blame(archive().metadata.key())) {
      ASSERT_TRUE(registry.crashing(archive(), blame));
    }
  }
  [[nodiscard]] std::string suspicion() const {
    const auto* condition = api::find_condition(archive().conditions, kSuspectCondition);
    return condition == nullptr ? "" : condition->status + " " + condition->reason;
  }
};

TEST_F(CrashTrust, TheGenerationBeforeTakesItsPlaceUntilAnotherIsSaved) {
  ASSERT_EQ(save("a", '1'), 200);
  ASSERT_EQ(save("a", '2'), 200);
  report_loaded("b", "SUCCESS", "exact");
  crashes.seen({"uid-b", "b", 3});
  judge();
  EXPECT_EQ(suspicion(), "True PodsCrashed");
  EXPECT_THAT(api::find_condition(archive().conditions, kSuspectCondition)->message,
              HasSubstr("pods crashed (b) that had loaded " + digest('2')));
  EXPECT_EQ(load("c").manifest_digest, digest('1'));

  EXPECT_THAT(begin_sweep().check, IsEmpty()) << "its bytes are right: reading them tells nothing";
  end_sweep("12", {}, {digest('2')});
  EXPECT_EQ(suspicion(), "True PodsCrashed");

  const auto refused = call<api::SaveAnswer>(
      "/v1/saves", "b", api::SaveRequest{.cache = "transformer", .attempt = "1", .new_files = 1});
  EXPECT_EQ(refused.reason, "loaded_suspect") << "the bad file is in this pod's directory";
  ASSERT_EQ(save("c", '3'), 200);
  EXPECT_EQ(suspicion(), "False SavedAnew");
  EXPECT_EQ(load("b").manifest_digest, digest('3'));
}

TEST_F(CrashTrust, AnArchiveThatIsAcquittedIsHandedOutAgain) {
  ASSERT_EQ(save("a", '1'), 200);
  report_loaded("b", "SUCCESS", "exact");
  crashes.seen({"uid-b", "b", 3});
  judge();
  EXPECT_EQ(load("c").reason, "suspect");
  ASSERT_TRUE(registry.acquitted(archive()));
  EXPECT_EQ(suspicion(), "False CrashWithoutItToo");
  EXPECT_EQ(load("c").manifest_digest, digest('1'));
}

}  // namespace
}  // namespace compilecache::controller
