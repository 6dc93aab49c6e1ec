#include <gtest/gtest.h>

#include "tests/unit/operator/agent_api_fixture.hpp"

// The agent API and pods that run only together.

namespace compilecache::controller::test {
namespace {

using Groups = AgentApiTest;

// They start together or not at all: the first would wait for those that wait for it.
TEST_F(Groups, NoPodWaitsForOneOfItsOwnGroup) {
  wait_for_first = seconds(600);
  for (const char* pod : {"a", "b", "c", "d", "e"}) add_pod(pod);
  for (const char* pod : {"a", "b", "c"}) put_into_group(pod, "one", pod[0] - 'a');
  put_into_group("d", "two", 0);
  EXPECT_EQ(load("a").decision, api::LoadDecision::kNone);
  EXPECT_EQ(load("b").decision, api::LoadDecision::kNone);
  EXPECT_EQ(load("d").reason, "waiting_for_first") << "another group may use what this one makes";
  EXPECT_EQ(load("e").reason, "waiting_for_first");
  ASSERT_EQ(save("a", '1'), 200);  // and compiles on
  EXPECT_EQ(load("c").reason, "group_cold") << "as the others of its group";
  EXPECT_EQ(load("d").reason, "waiting_for_first");
}

TEST_F(Groups, MembersOfOneStartGetTheSameGeneration) {
  for (const char* pod : {"a", "b", "c", "d", "e", "f"}) add_pod(pod);
  ASSERT_EQ(save("f", '1'), 200);
  for (const char* pod : {"a", "b", "c"}) put_into_group(pod, "one", pod[0] - 'a');
  put_into_group("d", "two", 0);
  EXPECT_EQ(load("a").manifest_digest, digest('1'));
  ASSERT_EQ(save("f", '2'), 200);
  EXPECT_EQ(load("b").manifest_digest, digest('1')) << "the generation before is still there";
  EXPECT_EQ(load("d").manifest_digest, digest('2')) << "another group";
  EXPECT_EQ(load("e").manifest_digest, digest('2')) << "no group";
  ASSERT_EQ(save("f", '3'), 200);
  EXPECT_EQ(load("c").manifest_digest, digest('3')) << "there is no other way to be warm";
  // Its controller starts it again.
  add_pod("g");
  put_into_group("g", "one", 0);
  EXPECT_EQ(load("g").manifest_digest, digest('3'));
}

TEST_F(Groups, MembersThatAskDuringAFirstSaveStayColdAsTheOthers) {
  for (const char* pod : {"a", "b", "c"}) {
    add_pod(pod);
    put_into_group(pod, "one", pod[0] - 'a');
  }
  EXPECT_EQ(load("a").decision, api::LoadDecision::kNone);
  ASSERT_EQ(save("a", '1'), 200);
  EXPECT_EQ(load("b").reason, "group_cold");
  clock.advance(minutes(11));
  EXPECT_EQ(load("c").decision, api::LoadDecision::kLoad) << "long after that start";
}

TEST_F(Groups, WhereAGroupsFirstDiesNoneOfTheGroupIsHeld) {
  wait_for_first = seconds(600);
  for (const char* pod : {"a", "b", "c", "d"}) add_pod(pod);
  for (const char* pod : {"a", "b"}) put_into_group(pod, "one", pod[0] - 'a');
  for (const char* pod : {"c", "d"}) put_into_group(pod, "two", pod[0] - 'c');
  EXPECT_EQ(load("a").decision, api::LoadDecision::kNone);
  for (const char* pod : {"c", "d"}) EXPECT_EQ(load(pod).reason, "waiting_for_first");
  auto dead = std::make_shared<PodView>(*view.pod("ml", "a"));
  dead->phase = "Failed";
  stores.pods.upsert("ml/a", dead);
  for (const char* pod : {"c", "d"}) {
    EXPECT_EQ(load(pod).decision, api::LoadDecision::kNone) << "one of them is the first now";
  }
  EXPECT_EQ(load("b").reason, "group_cold") << "as the first of its group";
}

TEST_F(Groups, APlacesRanksAreToldOnceItsPodsAgree) {
  const std::vector<std::string> ranks{"vllm/torch_compile_cache/AB/rank_1_0"};
  const api::EffectReport report{.cache = "transformer", .rank_directories = ranks};
  ASSERT_EQ(save("a", '1'), 200);
  for (const char* pod : {"a", "b", "c"}) {
    put_into_group(pod, std::string("group-of-") + pod, 1);
    EXPECT_EQ(load(pod).rank_directories, std::vector<std::string>{});
    ASSERT_EQ(send("POST", "/v1/effect", pod, api::dump(report)).status, 200);
  }
  registry.flush(true);
  add_pod("d");
  EXPECT_EQ(load("d").rank_directories, std::vector<std::string>{}) << "it has no place";
  put_into_group("d", "four", 0);
  EXPECT_EQ(load("d").rank_directories, std::vector<std::string>{}) << "nor this one";
  put_into_group("d", "four", 1);
  EXPECT_EQ(load("d").rank_directories, ranks);
  // They outlive the leader, and the archive's next head.
  const auto read = api::parse_archive({{"metadata", {{"name", "x"}}},
                                        {"spec", {{"cache", "transformer"}}},
                                        {"status", api::status_json(archive())}});
  ASSERT_TRUE(read);
  EXPECT_EQ(read->ranks, archive().ranks);
  ASSERT_EQ(save("a", '2'), 200);
  EXPECT_EQ(load("d").rank_directories, ranks);
}

}  // namespace
}  // namespace compilecache::controller::test
