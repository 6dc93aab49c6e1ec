#include "tests/integration/has_claims.hpp"
#include "tests/integration/operator_fixture.hpp"

// Pods that get their GPUs by resourceClaims. No scheduler and no driver runs here: claims are
// given devices, and ResourceSlices published, by hand.

namespace compilecache::testing {
namespace {

constexpr char kDriver[] = "gpu.nvidia.com";

class DevicesTest : public OperatorTest {
 protected:
  void TearDown() override {
    kubectl({"delete", "resourceslices", "-l", "test=" + ns, "--wait=false"});
    OperatorTest::TearDown();
  }

  static json gpu(const std::string& name, const std::string& profile = "") {
    json attributes = {{"type", {{"string", profile.empty() ? "gpu" : "mig"}}},
                       {"productName", {{"string", "NVIDIA H100 80GB HBM3"}}},
                       {"driverVersion", {{"version", "570.86.15"}}},
                       {"minor", {{"int", 0}}}};
    if (!profile.empty()) attributes["profile"] = {{"string", profile}};
    return {{"name", name}, {"attributes", attributes}};
  }

  // In a pool of its own; without `node` all nodes reach it.
  void publish(const std::string& pool, const std::string& node, const std::vector<json>& devices,
               int generation = 1) const {
    json spec = {{"driver", kDriver},
                 {"pool", {{"name", pool}, {"generation", generation}, {"resourceSliceCount", 1}}},
                 {"devices", devices}};
    if (node.empty()) {
      spec["allNodes"] = true;
    } else {
      spec["nodeName"] = node;
    }
    ASSERT_EQ(apply({{"apiVersion", "resource.k8s.io/v1"},
                     {"kind", "ResourceSlice"},
                     {"metadata",
                      {{"name", ns + "-" + pool + "-" + std::to_string(generation)},
                       {"labels", {{"test", ns}}}}},
                     {"spec", spec}}),
              "");
  }

  void make_claim_of_devices(const std::string& name, const std::string& pool,
                             const std::vector<std::string>& devices) const {
    const json request = {{"name", "gpus"},
                          {"exactly",
                           {{"deviceClassName", "gpu.nvidia.com"},
                            {"allocationMode", "ExactCount"},
                            {"count", std::max<size_t>(1, devices.size())}}}};
    ASSERT_EQ(apply({{"apiVersion", "resource.k8s.io/v1"},
                     {"kind", "ResourceClaim"},
                     {"metadata", {{"name", name}, {"namespace", ns}}},
                     {"spec", {{"devices", {{"requests", json::array({request})}}}}}}),
              "");
    if (devices.empty()) return;
    json results = json::array();
    for (const std::string& device : devices) {
      results.push_back(
          {{"request", "gpus"}, {"driver", kDriver}, {"pool", pool}, {"device", device}});
    }
    patch_status("resourceclaim", name, {{"allocation", {{"devices", {{"results", results}}}}}});
  }

  // The token of a running pod with the claim; `by_template`: as its status names it.
  std::string run_with(const std::string& name, const std::string& claim,
                       bool by_template = false) const {
    json pod = plain_pod(name, "app");
    pod["spec"]["containers"][0]["resources"] = {{"claims", json::array({{{"name", "gpu"}}})}};
    const json of_pod = by_template ? json{{"name", "gpu"}, {"resourceClaimTemplateName", "any"}}
                                    : json{{"name", "gpu"}, {"resourceClaimName", claim}};
    pod["spec"]["resourceClaims"] = json::array({of_pod});
    const auto injected = process->injected(pod, ns);
    EXPECT_TRUE(injected) << name << " is not injected";
    if (!injected) return "";
    EXPECT_EQ(apply(*injected), "");
    json status = {{"phase", "Running"}};
    if (by_template) {
      status["resourceClaimStatuses"] =
          json::array({{{"name", "gpu"}, {"resourceClaimName", claim}}});
    }
    patch_status("pod", name, status);
    return pod_token(ns, name);
  }

  static json load(const std::string& token) {
    const auto [status, answer] = process->call("POST", "/v1/load", token, {{"cache", "app"}});
    EXPECT_EQ(status, 200) << answer;
    return answer;
  }
};

TEST_F(DevicesTest, PodsWithClaimsAndPodsWithLabelsShareArchives) {
  if (no_claims()) return;
  make_ready_cache("app");
  publish(ns, "node-h100", {gpu("gpu-0"), gpu("gpu-1"), gpu("mig-0", "1g.10gb")});
  make_claim_of_devices("one", ns, {"gpu-0"});
  const std::string first = run_with("first", "one");
  const json cold = load(first);
  EXPECT_EQ(cold.value("reason", ""), "no_archive") << cold << process->log();
  EXPECT_EQ(at(cold, "/key/GPUProduct"), "NVIDIA-H100-80GB-HBM3");
  EXPECT_EQ(at(cold, "/key/GPUCount"), "1");
  ASSERT_EQ(commit(first, granted(first, "app", "a1"), "one").first, 200);
  // By the node's label, which says the same.
  EXPECT_EQ(load(run_pod("labelled", "app")).value("decision", ""), "load");

  make_claim_of_devices("web-2-gpu-x7k", ns, {"gpu-1"});
  EXPECT_EQ(load(run_with("templated", "web-2-gpu-x7k", true)).value("decision", ""), "load");
  make_claim_of_devices("both", ns, {"gpu-0", "gpu-1"});
  EXPECT_EQ(at(load(run_with("double", "both")), "/key/GPUCount"), "2");
  make_claim_of_devices("part", ns, {"mig-0"});
  const json part = load(run_with("sliced", "part"));
  EXPECT_EQ(at(part, "/key/GPUProduct"), "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb");
  EXPECT_EQ(part.value("decision", ""), "none") << "the whole GPU's kernels are not for it";
}

TEST_F(DevicesTest, APoolThatAllNodesReachIsFoundToo) {
  if (no_claims()) return;
  make_ready_cache("app");
  publish(ns + "-fabric", "", {gpu("gpu-9")});
  make_claim_of_devices("far", ns + "-fabric", {"gpu-9"});
  EXPECT_EQ(at(load(run_with("far", "far")), "/key/GPUProduct"), "NVIDIA-H100-80GB-HBM3");
}

TEST_F(DevicesTest, WhatCannotBeToldIsAColdStartWithItsReason) {
  if (no_claims()) return;
  make_ready_cache("app");
  make_claim_of_devices("waiting", ns, {});
  EXPECT_EQ(load(run_with("unallocated", "waiting")).value("reason", ""), "claim_not_allocated");
  EXPECT_EQ(load(run_with("claimless", "nowhere")).value("reason", ""), "claim_not_allocated");
  make_claim_of_devices("lost", ns, {"gpu-0"});
  const std::string lost = run_with("lost", "lost");
  const json waits = load(lost);
  EXPECT_EQ(waits.value("reason", ""), "device_not_published");
  EXPECT_EQ(waits.value("decision", ""), "wait") << "its driver may be about to start";
  publish(ns, "node-h100", {gpu("gpu-0")});
  EXPECT_EQ(load(lost).value("reason", ""), "no_archive") << process->log();

  json nameless = gpu("gpu-2");
  nameless["attributes"].erase("productName");
  publish(ns + "-odd", "node-h100", {nameless});
  make_claim_of_devices("odd", ns + "-odd", {"gpu-2"});
  const std::string odd = run_with("odd", "odd");
  EXPECT_EQ(load(odd).value("reason", ""), "device_unknown");
  const auto [status, answer] = process->call(
      "POST", "/v1/saves", odd, {{"cache", "app"}, {"attempt", "a"}, {"new_files", 1}});
  EXPECT_EQ(status, 200) << answer;
  EXPECT_EQ(answer.value("reason", ""), "device_unknown");
}

}  // namespace
}  // namespace compilecache::testing
