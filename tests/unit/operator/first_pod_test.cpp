#include "tests/unit/operator/agent_api_fixture.hpp"

// Single flight, as the agents see it: of the cold pods of one key the first compiles, and those
// that wait do so for its archive.

namespace compilecache::controller {
namespace {

using std::chrono::seconds;

class FirstPod : public test::AgentApiTest {};

TEST_F(FirstPod, TheSecondColdPodWaitsForTheFirst) {
  wait_for_first = seconds(60);
  for (const char* pod : {"a", "b"}) add_pod(pod);
  EXPECT_EQ(load("a").decision, api::LoadDecision::kNone);
  EXPECT_EQ(load("b").reason, "waiting_for_first");
  EXPECT_EQ(load("a").decision, api::LoadDecision::kNone) << "the first itself does not wait";
  auto ended = std::make_shared<PodView>(*view.pod("ml", "a"));
  ended->phase = "Failed";
  stores.pods.upsert("ml/a", ended);
  EXPECT_EQ(load("b").decision, api::LoadDecision::kNone)
      << "the first is dead, so the next goes ahead";
}

// It has no ReplicaSet and no annotation, so it does not wait, but compiles for those who do.
TEST_F(FirstPod, APodThatNeverWaitsIsTheFirstForThoseWhoDo) {
  cache.spec.load.wait_for_first = seconds(60);
  put_cache();
  for (const char* pod : {"bare", "another"}) add_pod(pod);
  wait_for_first = seconds(600);
  add_pod("a");
  EXPECT_EQ(load("bare").decision, api::LoadDecision::kNone);
  EXPECT_EQ(load("another").decision, api::LoadDecision::kNone);
  EXPECT_EQ(load("a").reason, "waiting_for_first");
  ASSERT_EQ(save("bare", '1'), 200);
  EXPECT_EQ(load("another").decision, api::LoadDecision::kLoad) << "what there is";
  EXPECT_EQ(load("a").reason, "waiting_for_first") << "for the rest of it";
  clock.advance(seconds(20));
  EXPECT_EQ(load("a").decision, api::LoadDecision::kLoad);
}

TEST_F(FirstPod, APodThatNeverWaitsIsWaitedForHalfAsLong) {
  cache.spec.load.wait_for_first = seconds(60);
  put_cache();
  add_pod("bare");
  mode = api::Mode::kReadOnly;
  add_pod("reader");
  mode = api::Mode::kReadWrite;
  wait_for_first = seconds(600);
  add_pod("a");
  EXPECT_EQ(load("reader").decision, api::LoadDecision::kNone) << "never saves";
  EXPECT_EQ(load("bare").decision, api::LoadDecision::kNone);
  EXPECT_EQ(load("a").reason, "waiting_for_first");
  clock.advance(seconds(30));
  EXPECT_EQ(load("a").decision, api::LoadDecision::kNone);
}

// The kubelet ends a pod only after the hook in which its one sidecar waits.
TEST_F(FirstPod, AWaitingPodThatIsDeletedIsLetGo) {
  wait_for_first = seconds(60);
  for (const char* pod : {"a", "b"}) add_pod(pod);
  EXPECT_EQ(load("a").decision, api::LoadDecision::kNone);
  EXPECT_EQ(load("b").decision, api::LoadDecision::kWait);
  auto deleted = std::make_shared<PodView>(*view.pod("ml", "b"));
  deleted->deleting = true;
  stores.pods.upsert("ml/b", deleted);
  EXPECT_EQ(load("b").decision, api::LoadDecision::kNone);
  EXPECT_EQ(load("b").reason, "pod_ends");
}

TEST_F(FirstPod, AFirstThatCrashesOrCannotSaveIsNotWaitedFor) {
  wait_for_first = seconds(60);
  for (const char* pod : {"a", "b"}) add_pod(pod);
  EXPECT_EQ(load("a").decision, api::LoadDecision::kNone);
  EXPECT_EQ(load("b").reason, "waiting_for_first");
  auto crashing = std::make_shared<PodView>(*view.pod("ml", "a"));
  crashing->containers = std::make_shared<const std::vector<ContainerView>>(
      std::vector<ContainerView>{{.name = "server", .restarts = 1}});
  stores.pods.upsert("ml/a", crashing);
  EXPECT_EQ(load("b").decision, api::LoadDecision::kNone);
  api::EffectReport refused{.cache = "transformer"};
  refused.save_outcome = api::Outcome::kError;
  refused.save_reason = "too_large";
  add_pod("c");
  EXPECT_EQ(load("c").reason, "waiting_for_first");
  ASSERT_EQ(send("POST", "/v1/effect", "b", api::dump(refused)).status, 200);
  EXPECT_EQ(load("c").decision, api::LoadDecision::kNone);
  mode = api::Mode::kReadOnly;
  clock.advance(seconds(60));
  add_pod("a");
  add_pod("b");
  EXPECT_EQ(load("a").decision, api::LoadDecision::kNone);
  EXPECT_EQ(load("b").decision, api::LoadDecision::kNone) << "the one before it will not save";
}

TEST_F(FirstPod, WhoWaitsIsLetGoWhenTheFirstSeemsToBeDone) {
  wait_for_first = seconds(600);
  for (const char* pod : {"a", "b"}) add_pod(pod);
  EXPECT_EQ(load("a").decision, api::LoadDecision::kNone);
  EXPECT_EQ(load("b").decision, api::LoadDecision::kWait);
  ASSERT_EQ(save("a", '1'), 200);  // after 40 s of compiling, and no silence to speak of
  EXPECT_EQ(load("b").reason, "waiting_for_first");
  clock.advance(seconds(19));
  api::EffectReport more{.cache = "transformer", .compiling = true};
  ASSERT_EQ(send("POST", "/v1/effect", "a", api::dump(more)).status, 200);
  clock.advance(seconds(60));
  EXPECT_EQ(load("b").reason, "waiting_for_first");
  ASSERT_EQ(save("a", '2'), 200);
  clock.advance(seconds(20));
  EXPECT_EQ(load("b").decision, api::LoadDecision::kLoad);
  EXPECT_EQ(load("b").generation, 2);
}

TEST_F(FirstPod, APodThatWaitsIsLoggedOnce) {
  wait_for_first = seconds(60);
  for (const char* pod : {"a", "b"}) add_pod(pod);
  EXPECT_EQ(load("a").decision, api::LoadDecision::kNone);
  ::testing::internal::CaptureStderr();
  for (const int64_t waited : {0, 100, 200}) {
    const api::LoadRequest request{.cache = "transformer", .waited_ms = waited};
    EXPECT_EQ(call<api::LoadAnswer>("/v1/load", "b", request).decision, api::LoadDecision::kWait);
  }
  const std::string log = ::testing::internal::GetCapturedStderr();
  const size_t first = log.find("load decided");
  EXPECT_NE(first, std::string::npos) << log;
  EXPECT_EQ(log.find("load decided", first + 1), std::string::npos) << log;
}

}  // namespace
}  // namespace compilecache::controller
