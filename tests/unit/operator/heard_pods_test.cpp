#include "operator/caches/heard_pods.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/names.hpp"
#include "operator/caches/conditions.hpp"

namespace compilecache::controller {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A pod of "ml/transformer" in a namespace where nobody calls unless asked to.
class HeardPodsTest : public ::testing::Test {
 protected:
  PodView pod(const std::string& name, bool loaded = true, const std::string& cache = "llama") {
    PodView made{.ns = "ml", .name = name, .uid = "uid-" + name, .cache = cache};
    made.injection = std::make_shared<const api::InjectionStatus>(
        api::InjectionStatus{.init_containers = {api::kLoaderContainer, api::kSaverContainer}});
    ContainerView loader{.name = api::kLoaderContainer, .init = true, .running = !loaded};
    if (loaded) loader.ended_reason = "Completed";
    made.containers = std::make_shared<const std::vector<ContainerView>>(1, loader);
    return made;
  }
  void loads(const std::string& name) { heard.seen(pod(name), now); }
  void loads_and_stays_silent(const std::string& name) {
    loads(name);
    now += seconds(90);
    silence();
  }
  // As the controller does.
  Silence silence(const std::string& cache = "llama") {
    const Silence found = heard.silence("ml", cache, now);
    if (found.turned) heard.announce("ml");
    return found;
  }

  HeardPodsTest() {
    heard.on_change([this](const std::string& ns) { changed.push_back(ns); });
    heard.begin();
  }
  std::vector<std::string> changed;
  Monotonic now{seconds(1000)};
  HeardPods heard{Settings::Agent{}};
};

// The loads were answered by a replica that does not lead, and the leader got no report.
TEST_F(HeardPodsTest, PodsThatAnotherReplicaAnsweredDoNotMakeTheirNamespaceNotAsked) {
  for (const char* name : {"a", "b", "c", "d"}) {
    PodView reads = pod(name);
    reads.injection = std::make_shared<const api::InjectionStatus>(
        api::InjectionStatus{.init_containers = {api::kLoaderContainer}});
    heard.seen(reads, now);
    now += seconds(90);
    EXPECT_THAT(silence().unheard, IsEmpty())
        << "without a saver nobody reports to the leader later";
  }
  for (const char* name : {"e", "f", "g", "h"}) {
    loads(name);
    now += seconds(30);
    heard.spoke(pod(name));  // its saver, which repeats the report until the leader has it
    now += seconds(60);
    EXPECT_FALSE(silence().not_asked);
  }
  EXPECT_THAT(changed, IsEmpty());
}

TEST_F(HeardPodsTest, OfOneSidecarTheLoadIsOverWhenItIsSaidToRun) {
  PodView one = pod("a");
  one.injection = std::make_shared<const api::InjectionStatus>(
      api::InjectionStatus{.init_containers = {api::kSaverContainer}});
  const auto sees = [&](const ContainerView& sidecar) {
    one.containers = std::make_shared<const std::vector<ContainerView>>(1, sidecar);
    heard.seen(one, now);
    now += seconds(90);
    return silence().unheard;
  };
  EXPECT_THAT(
      sees({.name = api::kSaverContainer, .init = true, .waiting_reason = "PodInitializing"}),
      IsEmpty());
  EXPECT_THAT(sees({.name = api::kSaverContainer, .init = true, .running = true}),
              ElementsAre("a"));
}

TEST_F(HeardPodsTest, APodIsUnheardSomeTimeAfterItsLoadersEnd) {
  heard.seen(pod("a", false), now);
  now += seconds(1000);
  EXPECT_THAT(silence().unheard, IsEmpty()) << "its loader still runs";
  loads("a");
  EXPECT_EQ(silence().again, seconds(90));
  now += seconds(89);
  EXPECT_THAT(silence().unheard, IsEmpty());
  now += seconds(1);
  EXPECT_THAT(silence().unheard, ElementsAre("a"));
  EXPECT_THAT(silence("other").unheard, IsEmpty());
  EXPECT_FALSE(silence().not_asked);
  heard.spoke(pod("a"));
  EXPECT_THAT(silence().unheard, IsEmpty());
  EXPECT_EQ(silence().heard, 1u);
}

TEST_F(HeardPodsTest, WhoSpokeBeforeTheWatchToldOfItIsHeard) {
  heard.spoke(pod("a"));
  loads_and_stays_silent("a");
  EXPECT_THAT(silence().unheard, IsEmpty());
}

TEST_F(HeardPodsTest, AfterSomeInARowPodsOfTheNamespaceAreToldNotToAsk) {
  loads_and_stays_silent("a");
  loads_and_stays_silent("b");
  EXPECT_FALSE(silence().not_asked);
  EXPECT_THAT(changed, IsEmpty());
  loads_and_stays_silent("c");
  EXPECT_TRUE(silence().not_asked);
  EXPECT_TRUE(silence("other").not_asked) << "policies are a namespace's";
  EXPECT_FALSE(heard.silence("elsewhere", "llama", now).not_asked);
  EXPECT_THAT(changed, ElementsAre("ml"));
  for (const char* name : {"a", "b", "c"}) heard.gone("ml", "uid-" + std::string(name));
  EXPECT_TRUE(silence().not_asked) << "until one calls";
  heard.spoke(pod("d"));
  EXPECT_FALSE(silence().not_asked);
  EXPECT_THAT(changed, ElementsAre("ml", "ml"));
}

TEST_F(HeardPodsTest, ThatPodsAreToldNoLongerToAskIsNewsOnce) {
  loads_and_stays_silent("a");
  loads_and_stays_silent("b");
  loads("c");
  now += seconds(90);
  EXPECT_TRUE(heard.silence("ml", "llama", now).turned);
  EXPECT_FALSE(heard.silence("ml", "llama", now).turned);
  EXPECT_THAT(changed, IsEmpty()) << "looking tells nobody";
}

TEST_F(HeardPodsTest, OneThatIsHeardBetweenThemBeginsTheCountAnew) {
  loads_and_stays_silent("a");
  loads_and_stays_silent("b");
  heard.spoke(pod("c"));
  loads_and_stays_silent("d");
  loads_and_stays_silent("e");
  EXPECT_FALSE(silence().not_asked);
  EXPECT_THAT(silence().unheard, ElementsAre("a", "b", "d", "e"));
}

TEST_F(HeardPodsTest, PodsThatWereThereBeforeWeLedMayHaveSpokenToAnother) {
  HeardPods late{Settings::Agent{}};
  late.seen(pod("a"), now);
  late.begin();
  now += seconds(1000);
  EXPECT_THAT(late.silence("ml", "llama", now).unheard, IsEmpty());
}

TEST_F(HeardPodsTest, ALoaderThatWasKilledNeedNotHaveAsked) {
  PodView killed = pod("a");
  ContainerView loader = killed.containers->front();
  loader.ended_reason = "OOMKilled";
  killed.containers = std::make_shared<const std::vector<ContainerView>>(1, loader);
  heard.seen(killed, now);
  now += seconds(1000);
  EXPECT_THAT(silence().unheard, IsEmpty());
}

TEST_F(HeardPodsTest, PodsWithAnOldAddressOfOursAreNoSignOfANetworkPolicy) {
  for (const char* name : {"a", "b", "c"}) loads(name);
  heard.spoke(pod("c"));
  heard.moved(true, now);
  loads("d");  // injected by a replica that had not noticed yet
  now += seconds(30);
  loads("e");
  now += seconds(90);
  const Silence found = silence();
  EXPECT_THAT(found.astray, ElementsAre("a", "b", "d"));
  EXPECT_THAT(found.unheard, ElementsAre("e"));
  EXPECT_FALSE(found.not_asked) << "new pods have the right address";

  std::vector<api::Condition> conditions;
  update_unheard(conditions, {.astray = {"a", "b", "d"}, .heard = 1}, 1, "now");
  const auto* told = api::find_condition(conditions, api::kPodsUnheardCondition);
  ASSERT_NE(told, nullptr);
  EXPECT_EQ(told->status, "True");
  EXPECT_EQ(told->reason, "AddressChanged");
  EXPECT_THAT(told->message, HasSubstr("3 of 4 pods that it injected (a, b, d)"));
  EXPECT_THAT(told->message, HasSubstr("until they are recreated"));
  EXPECT_THAT(told->message, ::testing::Not(HasSubstr("network-policy")));
  EXPECT_FALSE(api::is_not_asked(conditions));
}

TEST_F(HeardPodsTest, WhileOurServiceIsMissingSilenceCountsForNothing) {
  heard.moved(false, now);
  now += seconds(600);
  for (const char* name : {"a", "b", "c", "d"}) loads_and_stays_silent(name);
  EXPECT_FALSE(silence().not_asked);
  EXPECT_THAT(silence().unheard, IsEmpty());
  heard.moved(true, now);
  EXPECT_THAT(silence().astray, ElementsAre("a", "b", "c", "d"));
  heard.spoke(pod("a"));
  EXPECT_THAT(silence().astray, ElementsAre("b", "c", "d"));
}

TEST_F(HeardPodsTest, TheConditionNamesThemAndWhatToDo) {
  std::vector<api::Condition> conditions;
  Silence silent{.unheard = {"a", "b", "c", "d"}, .heard = 1};
  EXPECT_TRUE(update_unheard(conditions, silent, 1, "now"));
  const auto* told = api::find_condition(conditions, api::kPodsUnheardCondition);
  ASSERT_NE(told, nullptr);
  EXPECT_EQ(told->status, "True");
  EXPECT_THAT(told->message, HasSubstr("4 of 5 pods that it injected (a, b, c, ...)"));
  EXPECT_THAT(told->message, HasSubstr("docs/run/network-policy.md"));
  EXPECT_FALSE(api::is_not_asked(conditions));
  silent.not_asked = true;
  update_unheard(conditions, silent, 1, "now");
  EXPECT_TRUE(api::is_not_asked(conditions));
  ConditionInput input;
  input.storage = {"True", "Ready"};
  update_conditions(conditions, input, "now");
  EXPECT_EQ(api::find_condition(conditions, api::kReadyCondition)->reason, "PodsUnheard");

  // A new leader knows of no pod.
  const std::string before = api::find_condition(conditions, api::kPodsUnheardCondition)->message;
  EXPECT_FALSE(update_unheard(conditions, {.not_asked = true}, 1, "now"));
  EXPECT_EQ(api::find_condition(conditions, api::kPodsUnheardCondition)->message, before);
  update_unheard(conditions, {}, 1, "now");
  EXPECT_EQ(api::find_condition(conditions, api::kPodsUnheardCondition)->status, "False");
}

}  // namespace
}  // namespace compilecache::controller
