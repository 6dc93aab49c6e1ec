#include "operator/breaker/startup_diagnosis.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "api/names.hpp"
#include "tests/support/paths.hpp"

namespace compilecache::controller {
namespace {

using std::chrono::seconds;
using Kind = PodSign::Kind;

const SignRules kRules{.patience = seconds(30), .load_budget = seconds(200)};

ContainerView waiting(const char* name, const char* reason) {
  return {.name = name, .waiting_reason = reason, .waiting_message = "why"};
}
ContainerView running(const char* name, int restarts = 0) {
  return {.name = name, .running = true, .restarts = restarts};
}
ContainerView terminated(const char* name, int code, const char* reason, int restarts = 0) {
  return {.name = name, .ended_reason = reason, .exit_code = code, .restarts = restarts};
}
ContainerView looping(const char* name, int code, const char* reason, int restarts) {
  ContainerView container = terminated(name, code, reason, restarts);
  container.waiting_reason = "CrashLoopBackOff";
  return container;
}
ContainerView loaded() { return terminated(api::kLoaderContainer, 0, "Completed"); }

PodView pod_with(std::vector<ContainerView> containers, const char* phase = "Pending") {
  PodView pod;
  pod.ns = "ml";
  pod.name = "web-1";
  pod.uid = "u1";
  pod.node = "n1";
  pod.phase = phase;
  auto injection = std::make_shared<api::InjectionStatus>();
  injection->init_containers = {api::kLoaderContainer, api::kSaverContainer};
  injection->volumes = {api::kCacheVolume, api::kStoreVolume, api::kTokenVolume};
  injection->wait_for_first_ms = 60'000;
  pod.injection = injection;
  if (!containers.empty()) {
    pod.containers = std::make_shared<const std::vector<ContainerView>>(std::move(containers));
  }
  return pod;
}

// One sidecar loads and saves.
PodView sidecar_pod_with(std::vector<ContainerView> containers, const char* phase = "Pending") {
  PodView pod = pod_with(std::move(containers), phase);
  auto injection = std::make_shared<api::InjectionStatus>(*pod.injection);
  injection->init_containers = {api::kSaverContainer};
  pod.injection = injection;
  return pod;
}

struct Case {
  const char* name;
  PodView pod;
  Kind kind;
  Trouble trouble = Trouble::kStart;
  Duration patience{0};
};

constexpr const char* kLoad = api::kLoaderContainer;
constexpr const char* kSave = api::kSaverContainer;

std::vector<Case> cases() {
  const auto app_waits = waiting("app", "PodInitializing");
  const auto save_waits = waiting(kSave, "PodInitializing");
  std::vector<Case> all{
      {"no status yet", pod_with({}), Kind::kWaits, {}, seconds(30)},
      {"volumes are mounted",
       pod_with({waiting(kLoad, "PodInitializing"), save_waits, app_waits}),
       Kind::kWaits,
       {},
       seconds(30)},
      {"our image cannot be pulled",
       pod_with({waiting(kLoad, "ErrImagePull"), save_waits, app_waits}), Kind::kTrouble,
       Trouble::kImage, seconds(30)},
      {"... and the kubelet waits before the next try",
       pod_with({waiting(kLoad, "ImagePullBackOff"), save_waits, app_waits}), Kind::kTrouble,
       Trouble::kImage, seconds(30)},
      {"our container cannot be made",
       pod_with({waiting(kLoad, "CreateContainerConfigError"), save_waits, app_waits}),
       Kind::kTrouble, Trouble::kStart, seconds(30)},
      {"the loader runs",
       pod_with({running(kLoad), save_waits, app_waits}),
       Kind::kLoads,
       {},
       seconds(260)},
      {"the loader ended with an error",
       pod_with({terminated(kLoad, 1, "Error"), save_waits, app_waits}), Kind::kTrouble,
       Trouble::kExit, seconds(30)},
      {"the loader fails again and again",
       pod_with({looping(kLoad, 139, "Error", 4), save_waits, app_waits}), Kind::kTrouble,
       Trouble::kExit, seconds(30)},
      {"the loader was killed for its memory",
       pod_with({looping(kLoad, 137, "OOMKilled", 1), save_waits, app_waits}), Kind::kTrouble,
       Trouble::kMemory, seconds(30)},
      {"the loader is done", pod_with({loaded(), save_waits, app_waits}), Kind::kPast},
      {"the saver's container cannot be started, so the app's is not either",
       pod_with({loaded(), waiting(kSave, "RunContainerError"), app_waits}), Kind::kTrouble,
       Trouble::kStart, seconds(30)},
      {"the saver dies before the app starts",
       pod_with({loaded(), looping(kSave, 1, "Error", 1), app_waits}), Kind::kTrouble,
       Trouble::kExit, seconds(30)},
      {"all runs", pod_with({loaded(), running(kSave), running("app")}, "Running"), Kind::kPast},
      {"the saver was killed once or twice",
       pod_with({loaded(), looping(kSave, 137, "Error", 2), running("app")}, "Running"),
       Kind::kNone},
      {"the saver is killed again and again",
       pod_with({loaded(), looping(kSave, 137, "OOMKilled", 3), running("app")}, "Running"),
       Kind::kTrouble, Trouble::kMemory},
      {"it runs between two of its ends",
       pod_with({loaded(), running(kSave, 3), running("app")}, "Running"), Kind::kPast},
      {"the app's image cannot be pulled",
       pod_with({loaded(), running(kSave), waiting("app", "ImagePullBackOff")}), Kind::kPast},
      {"the app is killed for its memory",
       pod_with({loaded(), running(kSave), looping("app", 137, "OOMKilled", 9)}, "Running"),
       Kind::kPast},
      {"a user's init container fails",
       pod_with({loaded(), running(kSave), looping("migrate", 1, "Error", 5), app_waits}),
       Kind::kPast},
      {"restartPolicy Never: the loader's failure was the pod's end",
       pod_with({terminated(kLoad, 137, "OOMKilled"), save_waits, app_waits}, "Failed"),
       Kind::kTrouble, Trouble::kMemory},
      {"the app failed",
       pod_with({loaded(), running(kSave), terminated("app", 1, "Error")}, "Failed"), Kind::kPast},
      {"one sidecar: it is being made, or loads",
       sidecar_pod_with({save_waits, app_waits}),
       Kind::kWaits,
       {},
       seconds(30)},
      {"... its load is over", sidecar_pod_with({running(kSave), app_waits}), Kind::kPast},
      {"... a user's init container fails after it",
       sidecar_pod_with({running(kSave), looping("migrate", 1, "Error", 5), app_waits}),
       Kind::kPast},
      {"... its hook cannot be run",
       sidecar_pod_with({waiting(kSave, "PostStartHookError"), app_waits}), Kind::kTrouble,
       Trouble::kStart, seconds(30)},
      {"... so that it was ended",
       sidecar_pod_with({terminated(kSave, 0, "Completed", 3), app_waits}), Kind::kTrouble,
       Trouble::kStart, seconds(30)},
      {"... again and again", sidecar_pod_with({looping(kSave, 0, "Completed", 2), app_waits}),
       Kind::kTrouble, Trouble::kStart, seconds(30)},
      {"... it was killed for its memory in its load",
       sidecar_pod_with({looping(kSave, 137, "OOMKilled", 1), app_waits}), Kind::kTrouble,
       Trouble::kMemory, seconds(30)},
      {"... all runs", sidecar_pod_with({running(kSave), running("app")}, "Running"), Kind::kPast},
      {"its sandbox is recreated: the loader is to run again",
       pod_with({[] {
                   ContainerView loader = terminated(kLoad, 255, "Unknown", 1);
                   loader.waiting_reason = "PodInitializing";
                   return loader;
                 }(),
                 save_waits, terminated("app", 255, "Unknown")}),
       Kind::kWaits,
       {},
       seconds(30)},
      {"a Running pod that tells of no containers", pod_with({}, "Running"), Kind::kNone},
  };
  PodView pod = pod_with({waiting(kLoad, "ErrImagePull")});
  pod.deleting = true;
  all.push_back({"it is being deleted", pod, Kind::kNone});
  pod = pod_with({terminated(kLoad, 137, "Error")}, "Failed");
  pod.disrupted = true;
  all.push_back({"it was evicted while it loaded", pod, Kind::kNone});
  pod = pod_with({});
  pod.node.clear();
  all.push_back({"it is not scheduled yet", pod, Kind::kNone});
  pod.unschedulable = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.";
  all.push_back({"there are no GPUs", pod, Kind::kNone});
  pod.unschedulable = "0/3 nodes are available: persistentvolumeclaim \"caches\" is being deleted.";
  all.push_back({"our claim is going", pod, Kind::kTrouble, Trouble::kUnschedulable, seconds(30)});
  pod = pod_with({waiting(kLoad, "ErrImagePull")});
  auto remote_only = std::make_shared<api::InjectionStatus>(*pod.injection);
  remote_only->init_containers.clear();
  pod.injection = remote_only;
  all.push_back({"only a remote cache: no injected container", pod, Kind::kNone});
  return all;
}

TEST(PodSigns, Table) {
  const VolumeSight volume{.claim = "caches", .volume = "pv-1", .bound = true};
  for (const Case& one : cases()) {
    const PodSign sign = read_sign(one.pod, volume, kRules);
    EXPECT_EQ(static_cast<int>(sign.kind), static_cast<int>(one.kind)) << one.name;
    EXPECT_EQ(sign.patience, one.patience) << one.name;
    if (one.kind != Kind::kTrouble) continue;
    EXPECT_EQ(to_string(sign.trouble), to_string(one.trouble)) << one.name;
    EXPECT_FALSE(sign.text.empty()) << one.name;
  }
}

TEST(PodSigns, TextsAreCutBetweenCharacters) {
  PodView pod = pod_with({waiting(kLoad, "ErrImagePull")});
  auto containers = *pod.containers;
  for (int length = 100; length < 110; ++length) {
    containers[0].waiting_message = std::string(static_cast<size_t>(length), 'x');
    for (int i = 0; i < 200; ++i) containers[0].waiting_message += "\u20ac";
    pod.containers = std::make_shared<const std::vector<ContainerView>>(containers);
    const std::string text = read_sign(pod, {}, kRules).text;
    EXPECT_LE(text.size(), 243U);
    EXPECT_NO_THROW(nlohmann::json(text).dump()) << text;
  }
}

TEST(PodSigns, TheSchedulersWords) {
  const VolumeSight bound{.claim = "caches", .volume = "pv-1", .bound = true};
  const VolumeSight zonal{"caches", "pv-1", true, true};
  const VolumeSight unbound{.claim = "caches"};
  const struct {
    const char* message;
    const VolumeSight& volume;
    bool ours;
  } rows[] = {
      {"0/5 nodes are available: 1 node(s) had untolerated taint {a: b}, 4 node(s) had volume node "
       "affinity conflict.",
       zonal, true},
      {"0/5 nodes are available: 5 node(s) had volume node affinity conflict.", bound, false},
      {"0/5 nodes are available: 3 Insufficient nvidia.com/gpu, 2 node(s) had volume node affinity "
       "conflict.",
       zonal, false},
      {"0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.", unbound, true},
      {"0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.", bound, false},
      {"0/1 nodes are available: persistentvolumeclaim \"caches\" not found.", bound, true},
      {"0/1 nodes are available: persistentvolumeclaim \"data\" not found.", bound, false},
      {"0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector.", zonal,
       false},
      {"0/2 nodes are available: persistentvolumeclaim \"\" not found.", VolumeSight{}, false},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(claim_leaves_no_node(row.message, row.volume), row.ours) << row.message;
  }
}

TEST(PodSigns, TheKubeletsWords) {
  const PodView pod = pod_with({});
  const VolumeSight volume{.claim = "caches", .volume = "pv-1", .bound = true};
  const std::pair<const char*, bool> rows[] = {
      {"MountVolume.SetUp failed for volume \"pv-1\" : hostPath type check failed: /x is not a "
       "directory",
       true},
      {"MountVolume.SetUp failed for volume \"compilecache-token\" : failed to fetch token", true},
      {"MountVolume.SetUp failed for volume \"settings\" : configmap \"settings\" not found",
       false},
      {"AttachVolume.Attach failed for volume \"pv-1\" : rpc error: code = DeadlineExceeded", true},
      {"Multi-Attach error for volume \"pv-2\" Volume is already used by pod(s) db-0", false},
      {"Unable to attach or mount volumes: unmounted volumes=[compilecache-store], unattached "
       "volumes=[], failed to process volumes=[]: timed out waiting for the condition",
       true},
      {"Unable to attach or mount volumes: unmounted volumes=[data], unattached "
       "volumes=[compilecache-store], failed to process volumes=[]: timed out",
       false},
      {"Unable to attach or mount volumes: unmounted volumes=[compilecache-store data], unattached "
       "volumes=[]: timed out",
       false},
      {"Unable to attach or mount volumes: unmounted volumes=[], unattached volumes=[]", false},
      {"", false},
  };
  for (const auto& [message, ours] : rows) {
    EXPECT_EQ(is_about_our_volume(message, pod, volume), ours) << message;
  }
}

TEST(PodSigns, EveryReasonHasItsRow) {
  std::stringstream page;
  page << std::ifstream(testing::in_tree("docs/troubleshoot/injection-paused.md")).rdbuf();
  for (const Trouble trouble :
       {Trouble::kImage, Trouble::kStart, Trouble::kExit, Trouble::kMemory, Trouble::kMount,
        Trouble::kUnschedulable, Trouble::kRefused, Trouble::kSlowLoader}) {
    EXPECT_NE(page.str().find("| `" + std::string(to_string(trouble)) + "` | "), std::string::npos)
        << to_string(trouble);
  }
}

TEST(PodSigns, OnlyAPodThatHasStartedNothingIsReplacedWithoutLoss) {
  EXPECT_TRUE(has_started_nothing(pod_with({})));
  EXPECT_TRUE(has_started_nothing(
      pod_with({looping(kLoad, 1, "Error", 4), waiting("app", "PodInitializing")})));
  EXPECT_FALSE(has_started_nothing(pod_with({loaded(), running("app")})));
  EXPECT_FALSE(has_started_nothing(pod_with({loaded(), looping("app", 1, "Error", 1)})));
}

}  // namespace
}  // namespace compilecache::controller
