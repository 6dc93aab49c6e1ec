#include <gtest/gtest.h>

#include "tests/integration/operator_fixture.hpp"
#include "tests/support/paths.hpp"

// Pods that cannot start with what is injected, as the kubelet would tell of them.

namespace compilecache::testing {
namespace {

class BreakerTest : public OperatorTest {
 protected:
  // Injected, and on its node; nothing of it has started.
  std::string start_pod(const std::string& name, const json& owner = nullptr) const {
    json pod = plain_pod(name, "transformer");
    if (owner.is_object()) pod["metadata"]["ownerReferences"] = json::array({owner});
    const auto injected = process->injected(pod, ns);
    EXPECT_TRUE(injected) << name << " is not injected";
    if (!injected) return "";
    EXPECT_EQ(apply(*injected), "");
    return at(read({"pod", name, "-n", ns}), "/metadata/uid");
  }

  static json container(const std::string& name, const json& state, int restarts = 0) {
    return {{"name", name},
            {"image", "i"},
            {"imageID", ""},
            {"ready", state.contains("running")},
            {"restartCount", restarts},
            {"state", state}};
  }
  static json waits(const std::string& reason) {
    return {{"waiting", {{"reason", reason}, {"message", "as the kubelet says"}}}};
  }
  void tell(const std::string& pod, const std::string& phase, const json& loader, const json& saver,
            const json& app) const {
    patch_status("pod", pod,
                 {{"phase", phase},
                  {"initContainerStatuses", json::array({loader, saver})},
                  {"containerStatuses", json::array({app})}});
  }
  void tell_that_our_image_is_missing(const std::string& pod) const {
    tell(pod, "Pending", container(api::kLoaderContainer, waits("ImagePullBackOff")),
         container(api::kSaverContainer, waits("PodInitializing")),
         container("app", waits("PodInitializing")));
  }
  void tell_that_it_runs(const std::string& pod) const {
    const json running = {{"running", {{"startedAt", "2026-01-01T00:00:00Z"}}}};
    tell(pod, "Running",
         container(api::kLoaderContainer,
                   {{"terminated", {{"exitCode", 0}, {"reason", "Completed"}}}}),
         container(api::kSaverContainer, running), container("app", running));
  }
  void tell_failed_mount(const std::string& pod, const std::string& uid,
                         const std::string& message) const {
    const auto now = run_process({"date", "-u", "+%Y-%m-%dT%H:%M:%SZ"}).out.substr(0, 20);
    EXPECT_EQ(apply({{"apiVersion", "v1"},
                     {"kind", "Event"},
                     {"metadata", {{"name", pod + ".mount"}, {"namespace", ns}}},
                     {"involvedObject",
                      {{"apiVersion", "v1"},
                       {"kind", "Pod"},
                       {"namespace", ns},
                       {"name", pod},
                       {"uid", uid}}},
                     {"reason", "FailedMount"},
                     {"type", "Warning"},
                     {"message", message},
                     {"firstTimestamp", now},
                     {"lastTimestamp", now}}),
              "");
  }

  bool is_paused() const { return becomes("transformer", "InjectionPaused", "True"); }
  bool goes_on() const { return becomes("transformer", "InjectionPaused", "False"); }
  bool stays_open(seconds time) const {
    return !becomes("transformer", "InjectionPaused", "True", time);
  }
  json condition(const std::string& type) const { return cache_condition(ns, "transformer", type); }
  json answer() const { return process->review(plain_pod("next", "transformer"), ns); }
  void expect_not_injected() const {
    json response;
    EXPECT_TRUE(eventually(seconds(10), [&] {
      response = answer();
      return !response.contains("patch");
    })) << response;
    EXPECT_EQ(response.at("allowed"), true);
    EXPECT_NE(response.value("warnings", json::array()).dump().find("injection_paused"),
              std::string::npos)
        << response;
  }
  bool has_event(const std::string& reason) const {
    return eventually(seconds(15), [&] {
      for (const json& event : read_list({"events", "-n", ns})) {
        if (event.value("reason", "") == reason) return true;
      }
      return false;
    });
  }
};

TEST_F(BreakerTest, AnImageThatCannotBePulledPausesUntilItsPodStarts) {
  make_ready_cache("transformer");
  EXPECT_EQ(condition("InjectionPaused").at("status"), "False");
  start_pod("one");
  tell_that_our_image_is_missing("one");
  ASSERT_TRUE(is_paused()) << status("transformer") << process->log();
  EXPECT_EQ(condition("InjectionPaused").at("reason"), "ImageNotPulled");
  EXPECT_NE(condition("InjectionPaused").dump().find("as the kubelet says"), std::string::npos);
  EXPECT_EQ(condition("Ready").at("status"), "False");
  EXPECT_EQ(condition("Ready").at("reason"), "InjectionPaused");
  EXPECT_EQ(at(status("transformer"), "/stuckPods"), json::array({"one"}));
  EXPECT_TRUE(has_event("InjectionPaused"));
  expect_not_injected();
  const std::string metrics = process->get("/metrics").second;
  const std::string whose = "{namespace=\"" + ns + "\",cache=\"transformer\"";
  EXPECT_NE(metrics.find("compilecache_condition" + whose + ",type=\"InjectionPaused\"} 1"),
            std::string::npos);
  EXPECT_NE(metrics.find("compilecache_stuck_pods" + whose + "} 1"), std::string::npos);

  tell_that_it_runs("one");
  ASSERT_TRUE(goes_on()) << status("transformer") << process->log();
  EXPECT_EQ(condition("InjectionPaused").at("reason"), "PodsRecovered");
  EXPECT_TRUE(becomes("transformer", "Ready", "True"));
  EXPECT_EQ(at(status("transformer"), "/stuckPods"), json());
  EXPECT_TRUE(eventually(seconds(10), [&] { return answer().contains("patch"); }));
}

TEST_F(BreakerTest, AClaimThatCannotBeMountedPausesUntilAJobHasMountedIt) {
  make_ready_cache("transformer");
  const std::string uid = start_pod("one");
  const std::string volume = at(read({"pvc", "caches", "-n", ns}), "/spec/volumeName");
  tell_failed_mount("one", uid,
                    "MountVolume.SetUp failed for volume \"" + volume + "\" : not a directory");
  ASSERT_TRUE(is_paused()) << status("transformer") << process->log();
  EXPECT_EQ(condition("InjectionPaused").at("reason"), "ClaimNotMounted");
  expect_not_injected();

  kubectl({"delete", "pod", "one", "-n", ns, "--grace-period=0", "--force"});
  json probe;
  ASSERT_TRUE(eventually(seconds(20), [&] {
    for (const json& job : jobs("transformer")) {
      if (!at(job, "/status/succeeded").is_number()) probe = job;
    }
    return probe.is_object();
  })) << process->log();
  EXPECT_NE(probe.dump().find(R"("values":["node-h100"])"), std::string::npos)
      << "where it failed: " << probe;
  expect_not_injected();
  sweep("transformer");
  ASSERT_TRUE(goes_on()) << status("transformer") << process->log();
  EXPECT_EQ(condition("InjectionPaused").at("reason"), "ProbeSucceeded");
  EXPECT_TRUE(eventually(seconds(10), [&] { return answer().contains("patch"); }));
}

TEST_F(BreakerTest, ASaverThatIsKilledAgainAndAgainPauses) {
  make_ready_cache("transformer");
  start_pod("one");
  tell_that_it_runs("one");
  json saver = container(api::kSaverContainer, waits("CrashLoopBackOff"), 5);
  saver["lastState"] = {{"terminated", {{"exitCode", 137}, {"reason", "OOMKilled"}}}};
  patch_status(
      "pod", "one",
      {{"initContainerStatuses",
        json::array({container(api::kLoaderContainer,
                               {{"terminated", {{"exitCode", 0}, {"reason", "Completed"}}}}),
                     saver})}});
  ASSERT_TRUE(is_paused()) << status("transformer") << process->log();
  EXPECT_EQ(condition("InjectionPaused").at("reason"), "OutOfMemory");
}

TEST_F(BreakerTest, WhatIsThePodsOwnAffairDoesNotPause) {
  make_ready_cache("transformer");
  const json done = container(api::kLoaderContainer,
                              {{"terminated", {{"exitCode", 0}, {"reason", "Completed"}}}});
  const json saves =
      container(api::kSaverContainer, {{"running", {{"startedAt", "2026-01-01T00:00:00Z"}}}});
  start_pod("image");
  tell("image", "Pending", done, saves, container("app", waits("ErrImagePull")));
  start_pod("crash");
  tell("crash", "Running", done, saves, container("app", waits("CrashLoopBackOff"), 7));
  const std::string uid = start_pod("config");
  tell_failed_mount("config", uid,
                    "MountVolume.SetUp failed for volume \"settings\" : configmap not found");
  EXPECT_TRUE(stays_open(seconds(8))) << status("transformer");
  EXPECT_EQ(at(status("transformer"), "/stuckPods"), json());
  EXPECT_TRUE(answer().contains("patch"));
}

TEST_F(BreakerTest, ZAnotherLeaderKeepsItPausedAndEndsIt) {
  make_ready_cache("transformer");
  start_pod("one");
  tell_that_our_image_is_missing("one");
  ASSERT_TRUE(is_paused()) << process->log();
  const json before = at(status("transformer"), "/breaker");
  EXPECT_EQ(before.at("state"), "Open");
  process->end();
  process = std::make_unique<OperatorProcess>(kSettings);
  ASSERT_TRUE(eventually(seconds(60), [] { return process->ready() && leads(); }));
  EXPECT_EQ(at(status("transformer"), "/breaker/since"), before.at("since"));
  EXPECT_EQ(at(status("transformer"), "/stuckPods"), json::array({"one"}));
  expect_not_injected();
  tell_that_it_runs("one");
  EXPECT_TRUE(goes_on()) << status("transformer") << process->log();
}

// With config/components/replace-stuck-pods.
class ReplacingTest : public BreakerTest {
 protected:
  static void SetUpTestSuite() {
    ASSERT_EQ(install_operator(), "");
    make_node("node-h100", "NVIDIA-H100-80GB-HBM3");
    process = std::make_unique<OperatorProcess>(
        kSettings, OperatorProcessOptions{.more_arguments = {"--replace-stuck-pods"}});
    ASSERT_TRUE(eventually(seconds(60), [] { return process->ready() && leads(); }))
        << process->log();
  }
  static void TearDownTestSuite() {
    kubectl({"delete", "-f", kRights, "--ignore-not-found"});
    BreakerTest::TearDownTestSuite();
  }
  static json owner(const std::string& kind) {
    return {{"apiVersion", kind == "Job" ? "batch/v1" : "apps/v1"},
            {"kind", kind},
            {"name", "owner"},
            {"uid", "0b4a7b6e-0000-4000-8000-000000000000"},
            {"controller", true}};
  }
  bool is_replaced(const std::string& pod) const {
    const json found = get_json({"pod", pod, "-n", ns, "--ignore-not-found"});
    return !found.is_object() || at(found, "/metadata/deletionTimestamp").is_string();
  }

  inline static const std::string kRights =
      testing::in_tree("config/components/replace-stuck-pods/rbac.yaml");
};

TEST_F(ReplacingTest, StuckPodsThatComeBackAreEvictedWithTheComponentsRightOnly) {
  make_ready_cache("transformer");
  start_pod("web", owner("ReplicaSet"));
  start_pod("train", owner("Job"));
  start_pod("bare");
  for (const char* pod : {"web", "train", "bare"}) tell_that_our_image_is_missing(pod);
  ASSERT_TRUE(is_paused()) << process->log();
  EXPECT_TRUE(eventually(seconds(20), [&] {
    return process->log().find("replacing a stuck pod") != std::string::npos;
  })) << process->log();
  EXPECT_NE(process->log().find("pods/eviction"), std::string::npos) << process->log();
  EXPECT_FALSE(is_replaced("web"));

  // The next leader tries at once.
  EXPECT_EQ(kubectl({"apply", "-f", kRights}).exit_code, 0);
  process->end();
  process = std::make_unique<OperatorProcess>(
      kSettings, OperatorProcessOptions{.more_arguments = {"--replace-stuck-pods"}});
  ASSERT_TRUE(eventually(seconds(60), [] { return process->ready() && leads(); }));
  EXPECT_TRUE(eventually(seconds(20), [&] { return is_replaced("web"); })) << process->log();
  EXPECT_TRUE(has_event("StuckPodReplaced"));
  EXPECT_FALSE(is_replaced("train"));
  EXPECT_FALSE(is_replaced("bare"));
}

}  // namespace
}  // namespace compilecache::testing
