#include "operator/caches/status_decision.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "api/names.hpp"
#include "base/time_format.hpp"
#include "operator/caches/conditions.hpp"

namespace compilecache::controller {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

// A CompileCache whose storage is ready, and nothing else.
class StatusDecisionTest : public ::testing::Test {
 protected:
  StatusDecisionTest() {
    cache.metadata.generation = 3;
    cache.spec.frameworks = {"torch"};
    seen.known_frameworks = {"torch"};
    seen.storage = {.status = "True", .reason = "Ready", .message = "it is"};
  }
  void add_archive(const std::string& product, int64_t bytes) {
    auto archive = std::make_shared<api::CompileCacheArchive>();
    archive->key[api::kGpuProductPart] = product;
    archive->head.compressed_bytes = bytes;
    if (bytes > 0) archive->head.manifest_digest = "sha256:1";
    seen.archives.push_back(archive);
  }
  // Two pods on two nodes that have been stuck for long.
  void stick_two() {
    for (const char* name : {"a", "b"}) {
      StuckPod pod{.name = name, .uid = name, .node = name, .created = "2026-01-01T00:00:00Z"};
      pod.trouble = Trouble::kImage;
      pod.text = "ErrImagePull";
      pod.since = seen.now - minutes(5);
      pod.lasts = true;
      seen.breaker.input.seen.pods.push_back(pod);
    }
    seen.breaker.input.nodes = 2;
  }
  [[nodiscard]] StatusDecision decide() const { return decide_status(seen, rules); }
  static const api::Condition& condition(const StatusDecision& decided, const char* type) {
    const auto* found = api::find_condition(decided.status.conditions, type);
    EXPECT_NE(found, nullptr) << type;
    static const api::Condition kNone;
    return found == nullptr ? kNone : *found;
  }

  Settings::Breaker rules;
  api::CompileCache cache;
  StatusInput seen{.cache = cache, .counted = {}, .now = WallTime(hours(24 * 365 * 56))};
};

TEST_F(StatusDecisionTest, CountsArchivesThatHoldSomething) {
  add_archive("H100", 1000);
  add_archive("H100", 500);
  add_archive("A100", 30);
  add_archive("L4", 0);
  seen.active_pods = 7;
  seen.counted.loads.exact = 5;
  seen.counted.archives = seen.counted.total_bytes = 99;
  const StatusDecision decided = decide();
  EXPECT_EQ(decided.status.archives, 3);
  EXPECT_EQ(decided.status.total_bytes, 1530);
  EXPECT_EQ(decided.status.gpu_products, 2);
  EXPECT_EQ(decided.status.active_pods, 7);
  EXPECT_EQ(decided.status.loads.exact, 5) << "what was counted stays";
  EXPECT_EQ(decided.status.observed_generation, 3);
  EXPECT_EQ(condition(decided, api::kReadyCondition).status, "True");
  EXPECT_EQ(decided.again, seconds(0)) << "only something new changes that";
}

TEST_F(StatusDecisionTest, TheSameInputGivesTheSameStatus) {
  add_archive("H100", 1000);
  stick_two();
  seen.silence = {.unheard = {"a"}, .heard = 1};
  const auto first = api::to_json(decide().status);
  EXPECT_EQ(api::to_json(decide().status), first);
  seen.counted = decide().status;
  seen.breaker.before = decide().breaker.state;
  EXPECT_EQ(api::to_json(decide().status), first) << "and nothing is added when it is written";
}

TEST_F(StatusDecisionTest, StuckPodsPauseInjectionAndAreNamed) {
  stick_two();
  const StatusDecision decided = decide();
  EXPECT_TRUE(decided.breaker.state.open);
  EXPECT_EQ(decided.status.breaker.state, "Open");
  EXPECT_EQ(decided.status.stuck_pods, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(condition(decided, api::kInjectionPausedCondition).status, "True");
  EXPECT_EQ(condition(decided, api::kReadyCondition).reason, api::kInjectionPausedCondition);
  EXPECT_EQ(decided.again, rules.pause) << "then it is probed";
}

TEST_F(StatusDecisionTest, AUserThatIsRefusedIsNoOwnerAnyMore) {
  seen.counted.file_owners = {{"torch:1", 1000, false, "2026-01-01T00:00:00Z"}};
  seen.breaker.input.refused = {"ReplicaSet web: the image is not allowed"};
  StatusDecision decided = decide();
  EXPECT_FALSE(decided.refuse_owners);
  EXPECT_FALSE(decided.status.file_owners.at(0).refused);
  seen.breaker.input.refused = {"ReplicaSet web: runAsUser: Invalid value: 1000"};
  decided = decide();
  EXPECT_TRUE(decided.refuse_owners);
  EXPECT_TRUE(decided.status.file_owners.at(0).refused) << "in the very status that pauses";
}

TEST_F(StatusDecisionTest, ItComesAgainForWhateverIsDueFirst) {
  seen.breaker.again = seconds(40);
  EXPECT_EQ(decide().again, seconds(40)) << "Events are to be read";
  seen.breaker.input.seen.again = seconds(30);
  EXPECT_EQ(decide().again, seconds(30)) << "a pod may be stuck";
  seen.silence.again = seconds(20);
  EXPECT_EQ(decide().again, seconds(20)) << "a pod may be unheard";
}

TEST_F(StatusDecisionTest, AFrameworkThatNobodyKnowsIsSaidSo) {
  seen.known_frameworks = {"triton"};
  EXPECT_EQ(condition(decide(), api::kReadyCondition).reason, "UnknownFramework");
}

TEST_F(StatusDecisionTest, PodsThatCannotBeHeardAreSaidSo) {
  seen.silence = {.unheard = {"web-1", "web-2"}, .heard = 0, .not_asked = true};
  EXPECT_EQ(condition(decide(), api::kPodsUnheardCondition).status, "True");
  EXPECT_EQ(condition(decide(), api::kReadyCondition).status, "False");
}

TEST(RegistryTroubleCondition, IsThereOnlyInTheInstallationsRegistry) {
  std::vector<api::Condition> conditions;
  EXPECT_FALSE(update_registry_trouble(conditions, std::nullopt, 1, "now"));
  EXPECT_TRUE(conditions.empty());
  EXPECT_TRUE(update_registry_trouble(conditions, OwnRegistryTrouble{}, 1, "now"));
  EXPECT_EQ(api::find_condition(conditions, kRegistryTroubleCondition)->status, "False");
  update_registry_trouble(conditions, OwnRegistryTrouble{kRegistryFull, "no room"}, 1, "now");
  const auto* told = api::find_condition(conditions, kRegistryTroubleCondition);
  EXPECT_EQ(told->status, "True");
  EXPECT_EQ(told->reason, "RegistryFull");
  EXPECT_EQ(told->message, "no room");
  EXPECT_TRUE(update_registry_trouble(conditions, std::nullopt, 1, "now"));
  EXPECT_TRUE(conditions.empty());
}

}  // namespace
}  // namespace compilecache::controller
