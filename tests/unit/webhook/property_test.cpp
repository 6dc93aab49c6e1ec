#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "api/names.hpp"
#include "tests/unit/webhook/golden_case.hpp"
#include "webhook/patch.hpp"
#include "webhook/pod_json.hpp"
#include "webhook/pod_resources.hpp"
#include "webhook/strip.hpp"

// What holds for every pod, shown on pods that are made up: RC_PARAMS="max_success=10000" tries
// more of them.

namespace compilecache::webhook::testing {
namespace {

bool maybe() { return *rc::gen::arbitrary<bool>(); }

template <typename T>
T one_of(const std::vector<T>& all) {
  return *rc::gen::elementOf(all);
}

// One of these JSON texts.
json one_text_of(const std::vector<std::string>& all) { return json::parse(one_of(all)); }

json some_resources() {
  return one_text_of({
      R"({})",
      R"({"requests": {"cpu": "100m", "memory": "64Mi"}})",
      R"({"limits": {"cpu": "2", "memory": "2Gi"}})",
      R"({"requests": {"cpu": "2", "memory": "2Gi"}, "limits": {"cpu": "2", "memory": "2Gi"}})",
      R"({"limits": {"nvidia.com/gpu": "1"}})",
      R"({"limits": {"nvidia.com/gpu": 2, "cpu": 1, "memory": "1Gi"}})",
      R"({"requests": {"ephemeral-storage": "1Gi", "cpu": "0"}})",
      R"({"limits": {"example.org/odd": "1"}})",
      R"({"limits": {"rdma/hca": "1"}})",
  });
}

json some_variable() {
  const std::string name =
      one_of<std::string>({"A", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "VLLM_CACHE_ROOT",
                           "TORCHINDUCTOR_FX_GRAPH_CACHE", "USER"});
  if (maybe()) {
    return {{"name", name}, {"valueFrom", {{"fieldRef", {{"fieldPath", "metadata.name"}}}}}};
  }
  return {{"name", name},
          {"value",
           one_of<std::string>({"1", "", "/data/x", "/data/x/y", "/other/z", "/tmp",
                                "/compilecache/cache/torch", "relative", "/a/../b", "$(A)/x"})}};
}

json some_mount() {
  json mount = {{"name", one_of<std::string>({"v0", "v1", "kube-api-access-abcde"})},
                {"mountPath", one_of<std::string>({"/data", "/data/x", "/other", "/models",
                                                   "/compilecache", "/dev/shm", "/data/x/y/z"})}};
  if (maybe()) mount["readOnly"] = maybe();
  if (maybe()) mount["subPath"] = "a";
  return mount;
}

json some_security() {
  return one_text_of({R"({})", R"({"runAsUser": 1000})", R"({"runAsUser": 0, "runAsGroup": 0})",
                      R"({"runAsNonRoot": true, "readOnlyRootFilesystem": true})",
                      R"({"privileged": true})"});
}

// Absent, empty, or with up to three of what `make` makes.
template <typename Make>
void put_list(json& object, const char* name, const Make& make) {
  const int count = *rc::gen::inRange(-1, 4);
  if (count < 0) return;
  object[name] = json::array();
  for (int i = 0; i < count; ++i) object[name].push_back(make());
}

json some_container(const std::string& name) {
  json container = {{"name", name}, {"image", one_of<std::string>({"app:7", "vllm/vllm:1"})}};
  put_list(container, "env", some_variable);
  put_list(container, "volumeMounts", some_mount);
  if (maybe()) container["resources"] = some_resources();
  if (maybe()) container["securityContext"] = some_security();
  if (maybe()) container["envFrom"] = json::parse(R"([{"configMapRef": {"name": "s"}}])");
  if (maybe()) container["workingDir"] = one_of<std::string>({"/data/x/app", "/srv"});
  if (maybe()) container["command"] = {"python", one_of<std::string>({"/data/x/main.py", "-c"})};
  return container;
}

json some_annotations() {
  json annotations = {{api::kCacheAnnotation, "transformer"}, {"other", "value"}};
  if (maybe()) {
    annotations[api::kModeAnnotation] =
        one_of<std::string>({"ReadWrite", "ReadOnly", "Refresh", "Disabled", "ForceCold", "Odd"});
  }
  if (maybe()) annotations[api::kContainersAnnotation] = one_of<std::string>({"c0", "c1,c0", "no"});
  if (maybe()) {
    annotations[api::kFrameworksAnnotation] = one_of<std::string>({"torch", "triton,vllm", "cuda"});
  }
  if (maybe()) {
    annotations["cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"] =
        one_of<std::string>({"", "v0", "v0,v1"});
  }
  return annotations;
}

json some_pod() {
  json pod = {{"metadata", {{"generateName", "web-"}, {"annotations", some_annotations()}}},
              {"spec", {{"terminationGracePeriodSeconds", *rc::gen::inRange(0, 100)}}}};
  if (maybe()) pod["metadata"]["labels"]["app"] = "web";
  json& spec = pod["spec"];
  int number = 0;
  const int containers = *rc::gen::inRange(1, 4);
  for (; number < containers; ++number) {
    spec["containers"].push_back(some_container("c" + std::to_string(number)));
  }
  put_list(spec, "initContainers", [&] {
    json container = some_container("i" + std::to_string(number++));
    if (maybe()) container["restartPolicy"] = "Always";
    return container;
  });
  if (maybe()) {
    for (const char* name : {"v0", "v1"}) {
      json volume = one_text_of({R"({"emptyDir": {}})",
                                 R"({"emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}})",
                                 R"({"hostPath": {"path": "/mnt"}})",
                                 R"({"persistentVolumeClaim": {"claimName": "data"}})"});
      volume["name"] = name;
      spec["volumes"].push_back(volume);
    }
  }
  if (maybe()) spec["securityContext"] = some_security();
  if (maybe()) spec["resources"] = some_resources();
  if (maybe()) spec["hostNetwork"] = true;
  if (maybe()) spec["nodeSelector"]["gpu"] = "yes";
  if (maybe()) spec["resourceClaims"] = json::parse(R"([{"name": "device"}])");
  spec["restartPolicy"] = one_of<std::string>({"Always", "OnFailure", "Never"});
  return pod;
}

// A namespace without rules, or with those of a golden case.
GoldenCase some_namespace() {
  return load_golden_case(
      one_of<std::string>({"deployment", "limit-range", "limit-range-pod-no-room",
                           "quota-ephemeral-storage", "quota-no-room", "quota-wants-limits"}));
}

RC_GTEST_PROP(AnyPod, InjectingTwiceChangesNothing, ()) {
  const GoldenCase golden = some_namespace();
  const InjectionResult once = golden.run(some_pod());
  RC_CLASSIFY(once.report.reason == api::InjectionReason::kInjected, "injected");
  RC_PRE(once.pod.has_value());
  const InjectionResult again = golden.run(*once.pod);
  RC_ASSERT(!again.pod);
  RC_ASSERT(again.report.outcome == Outcome::kUnchanged);
}

RC_GTEST_PROP(AnyPod, NothingOfTheUsersIsChangedOrReordered, ()) {
  json pod = some_pod();
  const InjectionResult result = some_namespace().run(pod);
  RC_PRE(result.pod.has_value());
  json patched = *result.pod;
  for (const char* member : {"volumes", "initContainers", "containers"}) {
    RC_ASSERT(array_member(patched["spec"], member).size() >=
              array_member(pod["spec"], member).size());
  }
  for (json* object : {&pod, &patched}) {
    // The one value that grows.
    (*object)["metadata"]["annotations"].erase(
        "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes");
  }
  RC_ASSERT(contains_in_order(patched, pod));
  // Scheduling, restarts, network, security: not a member more, either.
  for (json* object : {&pod, &patched}) {
    for (const char* member : {"volumes", "initContainers", "containers"}) {
      (*object)["spec"].erase(member);
    }
  }
  RC_ASSERT(patched["spec"] == pod["spec"]);
}

// Without a LimitRange: with one the API server has filled its defaults in before any webhook sees
// the pod, so that pods without them do not come.
RC_GTEST_PROP(AnyPod, TheQosClassStays, ()) {
  const json pod = some_pod();
  const InjectionResult result = load_golden_case("deployment").run(pod);
  RC_ASSERT(qos_of(result.pod.value_or(pod)) == qos_of(pod));
}

RC_GTEST_PROP(AnyPod, ThePatchGivesTheResult, ()) {
  const json pod = some_pod();
  const InjectionResult result = some_namespace().run(pod);
  RC_PRE(result.pod.has_value());
  const auto patch = make_patch(pod, *result.pod);
  RC_ASSERT(patch.has_value());
  RC_ASSERT(pod.patch(*patch) == *result.pod);
}

RC_GTEST_PROP(AnyPod, TheClaimIsInOurContainersOnly, ()) {
  const json pod = some_pod();
  const InjectionResult result = some_namespace().run(pod);
  RC_PRE(result.report.reason == api::InjectionReason::kInjected && result.pod.has_value());
  for (const char* list : {"containers", "initContainers"}) {
    for (const json& container : array_member((*result.pod)["spec"], list)) {
      const std::string name = text_member(container, "name");
      const bool ours = name == api::kLoaderContainer || name == api::kSaverContainer;
      const json& mounts = array_member(container, "volumeMounts");
      RC_ASSERT((find_named(mounts, api::kStoreVolume) != nullptr) == ours);
    }
  }
}

TEST(LargePods, TwoThousandVariablesAndThreeMegabytesAreNoHindrance) {
  const GoldenCase golden = load_golden_case("deployment");
  json pod = golden.pod;
  json& env = pod["spec"]["containers"][0]["env"];
  for (int i = 0; i < 2000; ++i) {
    env.push_back({{"name", "V" + std::to_string(i)}, {"value", std::string(1500, 'x')}});
  }
  const InjectionResult result = golden.run(pod);
  ASSERT_EQ(result.report.reason, api::InjectionReason::kInjected);
  const auto patch = make_patch(pod, *result.pod);
  ASSERT_TRUE(patch);
  // What the user wrote does not travel back.
  EXPECT_LT(patch->dump().size(), 20'000U);
  EXPECT_EQ(golden.run(*result.pod).pod, std::nullopt);
}

}  // namespace
}  // namespace compilecache::webhook::testing
