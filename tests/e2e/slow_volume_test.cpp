#include "tests/support/slow_volume/slow_volume.hpp"

#include <cstdlib>
#include <filesystem>

#include "tests/e2e/sandbox.hpp"
#include "tests/support/left_out.hpp"

// A volume that is too slow, or from which nothing comes at all.

namespace compilecache::e2e {
namespace {

using std::chrono::seconds;
using testing::operations_of;
using testing::SlowVolume;
using testing::VolumeOperation;

const std::vector<std::string> kOneFunction{"--layers", "0"};

class SlowVolumes : public Sandbox {
 protected:
  void SetUp() override {
    if (const auto why = SlowVolume::missing()) GTEST_SKIP() << *why;
    slow_.emplace();
    Sandbox::SetUp();
  }
  void TearDown() override {
    if (!slow_) return;
    slow_->work();
    Sandbox::TearDown();
  }
  // Beneath the mount point, which is not to be removed with what is in it.
  [[nodiscard]] std::string make_volume() const override {
    std::filesystem::create_directory(slow_->path("caches"));
    return slow_->path("caches");
  }

  std::optional<SlowVolume> slow_;
};

TEST_F(SlowVolumes, ThePodStartsColdWhenTheBudgetIsOverAndTheNextOneLoads) {
  create_cache("transformer",
               {{"load", {{"timeout", "3s"}}}, {"storage", {{"claimName", "caches"}}}});
  wait_until_ready();
  run_to_ready({"one", kOneFunction});
  wait_for_save();
  remove_pod("one");

  slow_->delay(seconds(2));  // of each operation
  const json cold = run_to_ready({"two", kOneFunction});
  slow_->delay(seconds(0));
  EXPECT_GE(at(cold, "/misses").get<int>(), 1);
  json told;
  EXPECT_TRUE(eventually(seconds(15), [&] {
    told = explain("two");
    return at(told, "/load/outcome") == "failed";
  })) << told;
  EXPECT_EQ(at(told, "/load/reason"), "timeout") << told;
  // With two containers the loader has ended well; one sidecar, which loaded in its hook, runs on.
  const json ours = at(pod("two"), "/status/initContainerStatuses/0");
  if (std::getenv("CC_E2E_DELIVERY") == nullptr) {
    EXPECT_EQ(at(ours, "/state/terminated/exitCode"), 0) << ours;
  } else {
    EXPECT_FALSE(at(ours, "/state/running").is_null()) << ours;
  }
  EXPECT_EQ(at(ours, "/restartCount"), 0) << ours;
  remove_pod("two");

  const json warm = run_to_ready({"three", kOneFunction});
  EXPECT_EQ(at(warm, "/misses"), 0);
}

// The kernel does not let a process go that waits for FUSE's answer, and no container whose process
// it is: the loader has given up, and its pod waits all the same.
TEST_F(SlowVolumes, WhereNothingComesPodsStartWithoutUsUntilItWorksAgain) {
  if (testing::left_out("CC_E2E_LONG", "takes minutes")) return;
  create_cache("transformer",
               {{"load", {{"timeout", "3s"}}}, {"storage", {{"claimName", "caches"}}}});
  wait_until_ready();
  run_to_ready({"one", kOneFunction});
  wait_for_save();
  remove_pod("one");

  slow_->hang(operations_of(VolumeOperation::kRead));
  start({"two", kOneFunction});
  EXPECT_TRUE(eventually(seconds(180), [&] {
    return at(cache(), "/status/stuckPods") == json{"two"};
  })) << cache();
  EXPECT_NE(run_to_ready({"three", kOneFunction}), json());
  EXPECT_TRUE(at(pod("three"), "/spec/initContainers").is_null());

  slow_->work();
  EXPECT_NE(wait_for_result("two"), json());
  wait_until_ready();
  EXPECT_TRUE(eventually(seconds(60), [&] { return at(cache(), "/status/stuckPods").empty(); }))
      << cache();
}

}  // namespace
}  // namespace compilecache::e2e
