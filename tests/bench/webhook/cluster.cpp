#include "cluster.hpp"
#include "tests/support/paths.hpp"

#include <fstream>
#include <nlohmann/json.hpp>

namespace compilecache::bench {

using nlohmann::json;

namespace {

json cache(int number) {
  const std::string name = "cache-" + std::to_string(number);
  json recent = json::array();
  for (int i = 0; i < 32; ++i) {
    recent.push_back({{"pod", "inference-llama-6d9f7c5b8-" + std::to_string(10000 + i)},
                      {"node", "gpu-node-" + std::to_string(i)},
                      {"gpuProduct", "NVIDIA-H100-80GB-HBM3"},
                      {"archive", name + "-0a1b2c3d4e"},
                      {"load", "exact"},
                      {"milliseconds", 412},
                      {"effect", "full"},
                      {"time", "2026-05-04T09:12:44Z"}});
  }
  json conditions = json::array();
  for (const char* type : {"Ready", "StorageReady"}) {
    conditions.push_back({{"type", type},
                          {"status", "True"},
                          {"reason", "StoragePrepared"},
                          {"message", "the volume can be read and written"},
                          {"lastTransitionTime", "2026-05-04T09:12:44Z"},
                          {"observedGeneration", 1}});
  }
  return {{"apiVersion", "compilecache.dev/v1alpha1"},
          {"kind", "CompileCache"},
          {"metadata", {{"name", name}, {"namespace", "ml"}, {"generation", 1}}},
          {"spec",
           {{"storage", {{"claimName", "compile-caches"}}}, {"frameworks", {"torch", "triton"}}}},
          {"status", {{"observedGeneration", 1}, {"conditions", conditions}, {"recent", recent}}}};
}

}  // namespace

void fill(testing::FakeApiServer& server, int caches) {
  for (int i = 0; i < caches; ++i)
    server.put("/apis/compilecache.dev/v1alpha1/compilecaches", cache(i));
  server.put(
      "/apis/coordination.k8s.io/v1/leases",
      {{"metadata", {{"name", "compilecache-operator"}, {"namespace", "compilecache-system"}}},
       {"spec",
        {{"holderIdentity", "another"},
         {"leaseDurationSeconds", 86'400},
         {"acquireTime", "2026-05-04T09:12:44.000000Z"},
         {"renewTime", "2026-05-04T09:12:44.000000Z"},
         {"leaseTransitions", 1}}}});
}

void serve_version(testing::FakeApiServer& server) {
  server.script([](const testing::FakeRequest& request, testing::FakeConnection& connection) {
    if (request.path != "/version") return false;
    connection.reply(200, R"({"gitVersion":"v1.35.0"})");
    return true;
  });
}

std::string kubeconfig(const testing::FakeApiServer& server) {
  const json config = {
      {"apiVersion", "v1"},
      {"kind", "Config"},
      {"current-context", "bench"},
      {"clusters", {{{"name", "bench"}, {"cluster", {{"server", server.url()}}}}}},
      {"contexts", {{{"name", "bench"}, {"context", {{"cluster", "bench"}, {"user", "bench"}}}}}},
      {"users", {{{"name", "bench"}, {"user", {{"token", "t"}}}}}}};
  return config.dump();
}

std::string admission_review() {
  std::ifstream file(testing::in_tree("tests/bench/webhook/pod.json"));
  const json pod = json::parse(file);
  const json review = {
      {"kind", "AdmissionReview"},
      {"apiVersion", "admission.k8s.io/v1"},
      {"request",
       {{"uid", "705ab4f5-6393-11e8-b7cc-42010a800002"},
        {"kind", {{"group", ""}, {"version", "v1"}, {"kind", "Pod"}}},
        {"resource", {{"group", ""}, {"version", "v1"}, {"resource", "pods"}}},
        {"requestKind", {{"group", ""}, {"version", "v1"}, {"kind", "Pod"}}},
        {"requestResource", {{"group", ""}, {"version", "v1"}, {"resource", "pods"}}},
        {"namespace", "ml"},
        {"operation", "CREATE"},
        {"userInfo",
         {{"username", "system:serviceaccount:kube-system:replicaset-controller"},
          {"uid", "0c5f3d57-0e2f-4cc1-9e1f-5a5d2f1f8c11"},
          {"groups",
           {"system:serviceaccounts", "system:serviceaccounts:kube-system",
            "system:authenticated"}}}},
        {"object", pod},
        {"oldObject", nullptr},
        {"dryRun", false},
        {"options", {{"kind", "CreateOptions"}, {"apiVersion", "meta.k8s.io/v1"}}}}}};
  return review.dump();
}

}  // namespace compilecache::bench
