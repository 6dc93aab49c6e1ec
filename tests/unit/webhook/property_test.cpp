#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "api/names.hpp"
#include "tests/unit/webhook/golden_case.hpp"
#include "tests/unit/webhook/some_pod.hpp"
#include "webhook/patch.hpp"
#include "webhook/pod_json.hpp"
#include "webhook/pod_resources.hpp"
#include "webhook/strip.hpp"

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

TEST(LargePods, TwoThousandVariablesAreNoHindrance) {
  const GoldenCase golden = load_golden_case("deployment");
  json pod = golden.pod;
  json& env = pod["spec"]["containers"][0]["env"];
  for (int i = 0; i < 2000; ++i) {
    env.push_back({{"name", "V" + std::to_string(i)}, {"value", std::string(400, 'x')}});
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
