#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "api/names.hpp"
#include "tests/unit/webhook/golden_case.hpp"
#include "tests/unit/webhook/kubernetes_qos.hpp"
#include "tests/unit/webhook/pods.hpp"
#include "tests/unit/webhook/some_pod.hpp"
#include "webhook/pod_resources.hpp"

// What holds for every pod, shown on pods that are made up: RC_PARAMS="max_success=10000" tries
// more of them.

namespace compilecache::webhook::testing {
namespace {

// A namespace without rules, or with those of a golden case.
GoldenCase some_namespace() {
  return load_golden_case(*rc::gen::elementOf(
      std::vector<std::string>{"deployment", "limit-range", "limit-range-pod-no-room",
                               "quota-ephemeral-storage", "quota-no-room", "quota-wants-limits"}));
}

RC_GTEST_PROP(AnyPod, InjectingTwiceChangesNothing, ()) {
  const GoldenCase golden = some_namespace();
  const Injected once = golden.run(some_pod());
  RC_CLASSIFY(once.report.reason == api::InjectionReason::kInjected, "injected");
  RC_PRE(once.pod.has_value());
  const Injected again = golden.run(*once.pod);
  RC_ASSERT(!again.pod);
  RC_ASSERT(again.report.outcome == InjectionOutcome::kUnchanged);
}

RC_GTEST_PROP(AnyPod, NothingOfTheUsersIsChangedOrReordered, ()) {
  json pod = some_pod();
  const Injected result = some_namespace().run(pod);
  RC_PRE(result.pod.has_value());
  json patched = *result.pod;
  for (const char* member : {"volumes", "initContainers", "containers"}) {
    RC_ASSERT(items(patched["spec"], member).size() >= items(pod["spec"], member).size());
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
  const Injected result = load_golden_case("deployment").run(pod);
  RC_ASSERT(kubernetes_qos(result.pod.value_or(pod)) == kubernetes_qos(pod));
}

RC_GTEST_PROP(AnyPod, IsRankedAsKubernetesDoes, ()) {
  static constexpr const char* kNames[] = {"BestEffort", "Burstable", "Guaranteed"};
  const json pod = some_pod();
  RC_ASSERT(kNames[static_cast<int>(qos_of(tree_of(pod)))] == kubernetes_qos(pod));
}

RC_GTEST_PROP(AnyPod, TriedOutThePatchGivesTheResult, ()) {
  const json pod = some_pod();
  const Injected result = some_namespace().run(pod);
  RC_PRE(result.pod.has_value());
  JsonDocument tried = tree_of(pod);
  RC_ASSERT(apply(result.patch.dump(), tried, tried.GetAllocator()).has_value());
  RC_ASSERT(json::parse(to_text(tried)) == *result.pod);
}

RC_GTEST_PROP(AnyPod, TheClaimIsInOurContainersOnly, ()) {
  const json pod = some_pod();
  const Injected result = some_namespace().run(pod);
  RC_PRE(result.report.reason == api::InjectionReason::kInjected && result.pod.has_value());
  for (const char* list : {"containers", "initContainers"}) {
    for (const json& container : items(result.pod->at("spec"), list)) {
      const std::string name = container.at("name");
      const bool ours = name == api::kLoaderContainer || name == api::kSaverContainer;
      const json mounts = items(container, "volumeMounts");
      RC_ASSERT((named(mounts, api::kStoreVolume) != nullptr) == ours);
    }
  }
}

TEST(LargePods, TwoThousandVariablesAreNoHindrance) {
  const GoldenCase golden = load_golden_case("deployment");
  json pod = golden.pod;
  json& env = pod["spec"]["containers"][0]["env"];
  for (int i = 0; i < 2000; ++i) {
    env.push_back({{"name", "V" + std::to_string(i)}, {"value", std::string(400, 'x')}});
  }
  const Injected result = golden.run(pod);
  ASSERT_EQ(result.report.reason, api::InjectionReason::kInjected);
  // The user's own fields do not travel back.
  EXPECT_LT(result.patch.dump().size(), 20'000U);
  EXPECT_EQ(golden.run(*result.pod).pod, std::nullopt);
}

}  // namespace
}  // namespace compilecache::webhook::testing
