#include "operator/cluster/cluster_view.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "kube/json.hpp"

namespace compilecache::controller {
namespace {

using nlohmann::json;

json pod_json() {
  api::InjectionStatus status;
  status.containers = {"app"};
  status.key_basis.image = "torch:1";
  json pod = json::parse(R"({
    "metadata": {"name": "web-1", "namespace": "ml", "uid": "u1",
      "creationTimestamp": "2026-01-02T03:04:05Z",
      "labels": {"compilecache.dev/cache": "transformer"},
      "annotations": {},
      "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web",
                           "uid": "r1", "controller": true}]},
    "spec": {"nodeName": "n1", "serviceAccountName": "trainer"},
    "status": {"phase": "Pending",
      "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                      "message": "0/1 nodes"}],
      "initContainerStatuses": [{"name": "compilecache-load", "restartCount": 2,
        "state": {"terminated": {"reason": "OOMKilled", "exitCode": 137}}}],
      "containerStatuses": [{"name": "app", "imageID": "sha256:abc",
        "state": {"waiting": {"reason": "PodInitializing"}}}]}})");
  pod["metadata"]["annotations"]["compilecache.dev/status"] = api::dump(status);
  return pod;
}

// As a reflector reads it: what is not named in pod_fields() is not there.
TEST(ClusterView, ReadsWhatWeUseOfAPod) {
  json whole = pod_json();
  whole["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:06Z";
  whole["metadata"]["labels"]["compilecache.dev/sweep"] = "swept";
  whole["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] = 3;
  const auto pod = parse_pod(kube::parse_json(whole.dump(), pod_fields()));
  ASSERT_TRUE(pod);
  EXPECT_EQ(pod->uid, "u1");
  EXPECT_EQ(pod->phase, "Pending");
  EXPECT_EQ(pod->created, "2026-01-02T03:04:05Z");
  EXPECT_EQ(pod->sweep, "swept");
  EXPECT_TRUE(pod->deleting);
  EXPECT_EQ(pod->name, "web-1");
  EXPECT_EQ(pod->node, "n1");
  EXPECT_EQ(pod->cache, "transformer");
  EXPECT_EQ(pod->service_account, "trainer");
  ASSERT_TRUE(pod->injection);
  EXPECT_EQ(pod->injection->key_basis.image, "torch:1");
  EXPECT_EQ(pod->image_id(), "sha256:abc");
  ASSERT_TRUE(pod->owner);
  EXPECT_EQ(pod->owner->kind, "ReplicaSet");
  EXPECT_EQ(pod->unschedulable, "0/1 nodes");
  ASSERT_NE(pod->containers, nullptr);
  const std::vector<ContainerView>& containers = *pod->containers;
  ASSERT_EQ(containers.size(), 2U);
  EXPECT_TRUE(containers[0].init);
  EXPECT_EQ(containers[0].ended_reason, "OOMKilled");
  EXPECT_EQ(containers[0].exit_code, 137);
  EXPECT_EQ(containers[0].restarts, 2);
  EXPECT_EQ(containers[1].waiting_reason, "PodInitializing");
  EXPECT_EQ(containers[1].exit_code, 3);
  EXPECT_FALSE(parse_pod(pod_json())->deleting);
}

TEST(ClusterView, KnowsPodsThatTheClusterEnded) {
  EXPECT_FALSE(parse_pod(pod_json())->disrupted);
  json evicted = pod_json();
  evicted["status"]["reason"] = "Evicted";
  EXPECT_TRUE(parse_pod(kube::parse_json(evicted.dump(), pod_fields()))->disrupted);
  json preempted = pod_json();
  preempted["status"]["conditions"].push_back(
      {{"type", "DisruptionTarget"}, {"status", "True"}, {"reason", "PreemptionByScheduler"}});
  EXPECT_TRUE(parse_pod(kube::parse_json(preempted.dump(), pod_fields()))->disrupted);
}

// The reason why ten thousand pods fit into little memory.
TEST(ClusterView, PodsOfOneWorkloadShareWhatIsEqual) {
  json other = pod_json();
  other["metadata"]["name"] = "web-2";
  const auto first = parse_pod(pod_json()), second = parse_pod(other);
  EXPECT_EQ(first->injection, second->injection);
  EXPECT_EQ(first->owner, second->owner);
  EXPECT_EQ(first->containers, second->containers);
  other["status"]["containerStatuses"][0]["restartCount"] = 1;
  EXPECT_NE(parse_pod(other)->containers, first->containers);
}

TEST(ClusterView, OddPodsAreReadAsFarAsPossible) {
  for (const char* text : {"{}", "[]", "null", R"({"metadata": 3, "spec": [], "status": "x"})",
                           R"({"status": {"containerStatuses": [1, {"state": 5}]}})"}) {
    EXPECT_TRUE(parse_pod(json::parse(text))) << text;
  }
  json pod = pod_json();
  pod["metadata"]["annotations"]["compilecache.dev/status"] = "{broken";
  EXPECT_FALSE(parse_pod(pod)->injection);
}

TEST(ClusterView, ReadsNodesByTheSettingsLabels) {
  api::NodeLabels names;
  names.gpu_product = {"nvidia.com/gpu.product", "amd.com/gpu.product-name"};
  names.cpu_features = {"feature.node.kubernetes.io/cpu-cpuid.AVX2",
                        "feature.node.kubernetes.io/cpu-cpuid.AVX512F"};
  const auto node = parse_node(kube::parse_json(R"({"metadata": {"name": "n1", "labels": {
      "kubernetes.io/arch": "amd64", "amd.com/gpu.product-name": "MI300X",
      "nvidia.com/cuda.driver-version.full": "550.1",
      "feature.node.kubernetes.io/cpu-cpuid.AVX2": "true",
      "feature.node.kubernetes.io/cpu-cpuid.AVX512F": "true"}}})",
                                                node_fields(names)),
                               names);
  ASSERT_TRUE(node);
  EXPECT_EQ(node->facts, (api::NodeFacts{"MI300X", "amd64", "550.1", "AVX2+AVX512F"}));
}

// Without the label that has the whole version, as older GPU feature discovery leaves it.
TEST(ClusterView, SeveralLabelsMakeOneDriverVersion) {
  api::NodeLabels names;
  names.driver_version = {"a/full", "a/driver.major+a/driver.minor+a/driver.rev"};
  const auto version = [&](const std::string& labels) {
    return parse_node(kube::parse_json(R"({"metadata": {"name": "n1", "labels": )" + labels + "}}",
                                       node_fields(names)),
                      names)
        ->facts.driver_version;
  };
  EXPECT_EQ(version(R"({"a/driver.major": "550", "a/driver.minor": "90", "a/driver.rev": "07"})"),
            "550.90.07");
  EXPECT_EQ(version(R"({"a/driver.major": "550", "a/driver.minor": "90"})"), "550.90");
  EXPECT_EQ(version(R"({"a/full": "560.1", "a/driver.major": "550"})"), "560.1");
  EXPECT_EQ(version("{}"), "");
}

TEST(ClusterView, AnswersFromTheStores) {
  ClusterStores stores;
  const ClusterView view(stores);
  EXPECT_EQ(view.pod("ml", "web-1"), nullptr);
  EXPECT_FALSE(view.node("n1"));
  auto pod = std::make_shared<PodView>(parse_pod(pod_json()).value());
  stores.pods.upsert("ml/web-1", pod);
  auto ended = std::make_shared<PodView>(*pod);
  ended->phase = "Succeeded";
  stores.pods.upsert("ml/web-2", ended);
  EXPECT_EQ(view.pod("ml", "web-1")->uid, "u1");
  EXPECT_EQ(view.active_pods("ml", "transformer").size(), 1U);
  EXPECT_TRUE(view.active_pods("other", "transformer").empty());
  auto archive = std::make_shared<api::CompileCacheArchive>();
  archive->metadata.ns = "ml";
  archive->cache = "transformer";
  stores.archives.upsert("ml/a", archive);
  EXPECT_EQ(view.archives_of("ml", "transformer").size(), 1U);
  EXPECT_TRUE(view.archives_of("ml", "other").empty());
}

}  // namespace
}  // namespace compilecache::controller
