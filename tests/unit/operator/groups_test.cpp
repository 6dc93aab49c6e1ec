#include <gtest/gtest.h>

#include "tests/unit/operator/agent_api_fixture.hpp"

// What the agent API makes of pods that run only together.

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
  EXPECT_EQ(load("c").decision, api::LoadDecision::kLoad);
  EXPECT_EQ(load("d").reason, "waiting_for_first");
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
  EXPECT_EQ(load("b").reason, "waiting_for_first");
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
