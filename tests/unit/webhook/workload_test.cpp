#include "webhook/workload.hpp"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "webhook/read_json.hpp"

namespace compilecache::webhook {
namespace {

using Labels = std::map<std::string, std::string>;

std::string workload(const std::string& kind, const std::string& name, const Labels& labels = {}) {
  nlohmann::json pod{{"metadata", {{"labels", labels}}}};
  if (!kind.empty()) {
    pod["metadata"]["ownerReferences"] = {{{"kind", kind}, {"name", name}, {"controller", true}}};
  }
  JsonDocument document;
  document.Parse(pod.dump().c_str());
  return workload_of(document);
}

TEST(Workload, IsWhatTheUserWrote) {
  EXPECT_EQ(workload("", ""), "");
  EXPECT_EQ(workload("StatefulSet", "web"), "StatefulSet/web");
  EXPECT_EQ(workload("ReplicaSet", "web-6d9f", {{"pod-template-hash", "6d9f"}}), "Deployment/web");
  EXPECT_EQ(workload("ReplicaSet", "web", {{"pod-template-hash", "6d9f"}}), "ReplicaSet/web");
  EXPECT_EQ(workload("ReplicaSet", "-6d9f", {{"pod-template-hash", "6d9f"}}), "ReplicaSet/-6d9f");
  EXPECT_EQ(workload("Job", "nightly-29400000"), "CronJob/nightly");
  EXPECT_EQ(workload("Job", "nightly-2940000"), "Job/nightly-2940000");
  EXPECT_EQ(workload("Job", "29400000"), "Job/29400000");
}

// Each revision of a Rollout, group, cluster or replicated Job is the same workload.
TEST(Workload, OwnersThatControllersMakeAreNotIt) {
  EXPECT_EQ(workload("ReplicaSet", "web-5f8", {{"rollouts-pod-template-hash", "5f8"}}),
            "Rollout/web");
  for (const char* group : {"g", "g-0", "g-7"}) {
    EXPECT_EQ(workload("StatefulSet", group, {{"leaderworkerset.sigs.k8s.io/name", "g"}}),
              "LeaderWorkerSet/g");
  }
  for (const char* job : {"train-node-0", "train-node-29400000"}) {
    EXPECT_EQ(workload("Job", job, {{"jobset.sigs.k8s.io/jobset-name", "train"}}), "JobSet/train");
  }
  // The JobSet of a TrainJob has its name, and a replicated Job for each of its steps.
  for (const char* step : {"dataset-initializer", "model-initializer", "node"}) {
    EXPECT_EQ(workload("Job", std::string("mnist-") + step + "-0",
                       {{"jobset.sigs.k8s.io/jobset-name", "mnist"},
                        {"jobset.sigs.k8s.io/replicatedjob-name", step},
                        {"batch.kubernetes.io/job-name", std::string("mnist-") + step + "-0"}}),
              "JobSet/mnist");
  }
}

TEST(Workload, RayClustersOfAServiceAreOne) {
  for (const char* cluster : {"llama-raycluster-x2x7k", "llama-raycluster-bcdfg", "llama-9zz4w"}) {
    EXPECT_EQ(workload("RayCluster", cluster), "RayCluster/llama") << cluster;
  }
  EXPECT_EQ(workload("RayCluster", "llama-9zz4w",
                     {{"ray.io/originated-from-crd", "RayService"},
                      {"ray.io/originated-from-cr-name", "llama"}}),
            "RayService/llama");
  for (const char* own : {"llama", "llama-model", "llama-80gb", "x2x7k", "-x2x7k"}) {
    EXPECT_EQ(workload("RayCluster", own), std::string("RayCluster/") + own);
  }
}

// A controller's word about its pod counts more than the pod's own.
TEST(Workload, ABarePodNamesItself) {
  const auto said = [](nlohmann::json pod, const std::string& text) {
    pod["metadata"]["annotations"]["compilecache.dev/workload"] = text;
    JsonDocument document;
    document.Parse(pod.dump().c_str());
    return workload_of(document);
  };
  EXPECT_EQ(said(nlohmann::json::object(), "Deployment/web"), "Deployment/web");
  EXPECT_EQ(said(nlohmann::json::object(), std::string(321, 'a')), "");
  const nlohmann::json owner{{"kind", "StatefulSet"}, {"name", "db"}, {"controller", true}};
  EXPECT_EQ(said({{"metadata", {{"ownerReferences", {owner}}}}}, "Deployment/web"),
            "StatefulSet/db");
}

}  // namespace
}  // namespace compilecache::webhook
