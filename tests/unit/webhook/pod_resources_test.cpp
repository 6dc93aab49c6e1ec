#include "webhook/pod_resources.hpp"

#include <gtest/gtest.h>

#include "tests/unit/webhook/kubernetes_qos.hpp"
#include "tests/unit/webhook/pods.hpp"

namespace compilecache::webhook {
namespace {

using nlohmann::json;
using testing::kubernetes_qos;
using testing::tree_of;

json container(const json& requests, const json& limits, const char* restart = nullptr) {
  json object = {{"resources", {{"requests", requests}, {"limits", limits}}}};
  if (restart != nullptr) object["restartPolicy"] = restart;
  return object;
}

json pod(const json& init, const json& app) {
  return {{"spec", {{"initContainers", init}, {"containers", app}}}};
}

// As the webhook ranks it; the reckoning that other tests go by has to say the same.
Qos qos_of_pod(const json& pod) {
  static constexpr const char* kNames[] = {"BestEffort", "Burstable", "Guaranteed"};
  const Qos ranked = qos_of(tree_of(pod));
  EXPECT_EQ(kubernetes_qos(pod), kNames[static_cast<int>(ranked)]) << pod;
  return ranked;
}

TEST(PodResources, QosClasses) {
  const json none = json::object();
  const json full = {{"cpu", "1"}, {"memory", "1Gi"}};
  EXPECT_EQ(qos_of_pod(pod(json::array(), json::array({container(none, none)}))), Qos::kBestEffort);
  EXPECT_EQ(qos_of_pod(pod(json::array(), json::array({container({{"cpu", "0"}}, none)}))),
            Qos::kBestEffort);
  EXPECT_EQ(
      qos_of_pod(pod(json::array(), json::array({container(none, {{"nvidia.com/gpu", "1"}})}))),
      Qos::kBestEffort);
  EXPECT_EQ(qos_of_pod(pod(json::array(), json::array({container(none, full)}))), Qos::kGuaranteed);
  EXPECT_EQ(qos_of_pod(pod(json::array(), json::array({container(full, {{"cpu", "1"}})}))),
            Qos::kBurstable);
  EXPECT_EQ(
      qos_of_pod(pod(json::array({container(none, none)}), json::array({container(full, full)}))),
      Qos::kBurstable);
}

TEST(PodResources, ResourcesOfThePodAsAWholeMakeItsClassAlone) {
  const json full = {{"cpu", "1"}, {"memory", "1Gi"}};
  json object = pod(json::array(), json::array({container(full, full)}));
  object["spec"]["resources"] = {{"requests", {{"cpu", "2"}}}};
  EXPECT_EQ(qos_of_pod(object), Qos::kBurstable);
  object = pod(json::array(), json::array({container({{"cpu", "1"}}, json::object())}));
  object["spec"]["resources"] = {{"limits", {{"cpu", "2"}, {"memory", "1Gi"}}}};
  EXPECT_EQ(qos_of_pod(object), Qos::kGuaranteed);
  object["spec"]["overhead"] = {{"cpu", "250m"}};
  EXPECT_EQ(effective_amounts(tree_of(object)).requests.at("cpu"), 2250);
  EXPECT_EQ(summed_amounts(tree_of(object)).requests.at("cpu"), 1000);
}

TEST(PodResources, AnEmptyObjectIsNoResourcesOfThePod) {
  const json full = {{"cpu", "1"}, {"memory", "1Gi"}};
  json object = pod(json::array(), json::array({container(full, full)}));
  for (const json& none :
       {json::object(), json{{"requests", json::object()}}, json{{"claims", json::array()}},
        json{{"limits", {{"ephemeral-storage", "1Gi"}}}}}) {
    object["spec"]["resources"] = none;
    EXPECT_FALSE(has_pod_level_resources(tree_of(object))) << none;
    EXPECT_EQ(qos_of_pod(object), Qos::kGuaranteed) << none;
  }
  object["spec"]["resources"] = {{"limits", {{"hugepages-2Mi", "2Mi"}}}};
  EXPECT_TRUE(has_pod_level_resources(tree_of(object)));
}

TEST(PodResources, EqualAmountsAreEqualHoweverWritten) {
  EXPECT_EQ(
      qos_of_pod(pod(json::array(), json::array({container({{"cpu", "1000m"}, {"memory", "1024Mi"}},
                                                           {{"cpu", 1}, {"memory", "1Gi"}})}))),
      Qos::kGuaranteed);
}

TEST(PodResources, TheFormulaWithSidecars) {
  const json none = json::object();
  // init 3 alone; sidecar 1, then init 4 beside it (5); apps 1 + 1 beside the sidecar (3).
  const json init =
      json::array({container({{"cpu", "3"}}, none), container({{"cpu", "1"}}, none, "Always"),
                   container({{"cpu", "4"}}, none)});
  json object =
      pod(init, json::array({container({{"cpu", "1"}}, none), container({{"cpu", "1"}}, none)}));
  EXPECT_EQ(effective_amounts(tree_of(object)).requests.at("cpu"), 5000);
  object["spec"]["overhead"] = {{"cpu", "250m"}};
  EXPECT_EQ(effective_amounts(tree_of(object)).requests.at("cpu"), 5250);
}

TEST(PodResources, AmountsAreWrittenAsQuantities) {
  EXPECT_EQ(format_amount(100), "100m");
  EXPECT_EQ(format_amount(2000), "2");
  EXPECT_EQ(format_amount(134217728000), "128Mi");
  EXPECT_EQ(format_amount(0), "0");
}

}  // namespace
}  // namespace compilecache::webhook
