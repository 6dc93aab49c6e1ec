#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "api/names.hpp"
#include "base/random.hpp"
#include "base/sha256.hpp"
#include "tests/integration/operator_process.hpp"
#include "tests/support/kubectl.hpp"

// A cluster without kubelets and controllers, as tests of the operator see it: claims are bound,
// Jobs get their pods and agents speak as the test says.

namespace compilecache::testing {

using nlohmann::json;
using std::chrono::seconds;

inline constexpr char kSettings[] = R"(
statusInterval: 200ms
tokenCache: 1s
sweep: {grace: 2s, minInterval: 1s}
breaker: {patience: 1s, oneNode: 2s, pause: 2s, longestPause: 4s, replaceInterval: 1s}
gpuProductLabels: [nvidia.com/gpu.product]
gpuResources: [nvidia.com/gpu]
deviceDrivers:
  gpu.nvidia.com:
    {product: productName, driverVersion: driverVersion, wholeTypes: [gpu], profile: profile, profilePrefix: -MIG-}
frameworks:
  torch:
    env: {TORCHINDUCTOR_CACHE_DIR: "{directory}"}
    directoryVariable: TORCHINDUCTOR_CACHE_DIR
    coldEnv: {TORCHINDUCTOR_FORCE_DISABLE_CACHES: "1"}
)";

// One operator for all tests; each test has a namespace of its own.
class OperatorTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const std::string error = install_operator();
    ASSERT_EQ(error, "");
    make_node("node-h100", "NVIDIA-H100-80GB-HBM3");
    process = std::make_unique<OperatorProcess>(kSettings);
    ASSERT_TRUE(eventually(seconds(60), [] { return process->ready() && leads(); }))
        << process->log();
  }
  static void TearDownTestSuite() {
    if (process == nullptr) return;  // it was not even started
    if (HasFailure()) std::cerr << process->log();
    process->end();  // the next to lead need not wait for the lease to expire
    process.reset();
  }

  void SetUp() override {
    std::string name = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    for (char& c : name) c = static_cast<char>(std::tolower(c));
    // No controller here finishes deleting a namespace, so a second run needs other names.
    ns = "op-" + name.substr(0, 40) + "-" + random_id(system_random()).substr(0, 6);
    make_namespace(ns);
  }
  // No controller here empties a namespace; later operators are to find none of its CompileCaches.
  void TearDown() override {
    kubectl({"delete", "compilecache", "--all", "-n", ns, "--wait=false"});
    kubectl({"delete", "namespace", ns, "--wait=false"});
  }

  static bool leads() { return process->leads(); }

  // The error; empty when it was accepted.
  std::string make_cache(const std::string& name, json spec) const {
    spec["storage"].emplace("claimName", "caches");
    spec.emplace("frameworks", json::array({"torch"}));
    return apply({{"apiVersion", api::kApiVersion},
                  {"kind", "CompileCache"},
                  {"metadata", {{"name", name}, {"namespace", ns}}},
                  {"spec", spec}});
  }

  bool becomes(const std::string& cache, const std::string& type, const std::string& status,
               seconds patience = seconds(30)) const {
    return eventually(patience, [&] {
      const json condition = cache_condition(ns, cache, type);
      return condition.is_object() && condition.at("status") == status;
    });
  }

  json status(const std::string& cache) const {
    return at(read({"compilecache", cache, "-n", ns}), "/status");
  }

  std::vector<json> jobs(const std::string& cache) const {
    return read_list({"jobs", "-n", ns, "-l", std::string(api::kSweepLabel) + "=" + cache});
  }

  // The pod that a Job controller would make, and the Job's word that it has one.
  std::string make_sweep_pod(const json& job) const {
    const std::string name = job.at("metadata").at("name").get<std::string>() + "-pod";
    json pod = job.at("spec").at("template");
    pod["apiVersion"] = "v1";
    pod["kind"] = "Pod";
    pod["metadata"]["name"] = name;
    pod["metadata"]["namespace"] = ns;
    pod["metadata"]["ownerReferences"] = json::array({{{"apiVersion", "batch/v1"},
                                                       {"kind", "Job"},
                                                       {"controller", true},
                                                       {"name", job.at("metadata").at("name")},
                                                       {"uid", job.at("metadata").at("uid")}}});
    pod["spec"]["nodeName"] = "node-h100";
    pod["spec"]["serviceAccountName"] = "default";  // as the admission of a whole cluster does
    EXPECT_EQ(apply(pod), "");
    patch_status("job", job.at("metadata").at("name"), {{"active", 1}});
    return name;
  }

  void patch_status(const std::string& kind, const std::string& name, const json& status) const {
    const ProcessResult result = kubectl({"patch", kind, name, "-n", ns, "--subresource=status",
                                          "--type=merge", "-p", json{{"status", status}}.dump()});
    EXPECT_EQ(result.exit_code, 0) << result.err;
  }

  // As the API server's own release has it: since 1.31 success criteria are met first, and before
  // that only Jobs with a policy had any.
  static json conditions_of_success() {
    json conditions = json::array({{{"type", "Complete"}, {"status", "True"}}});
    const json version = json::parse(kubectl({"get", "--raw", "/version"}).out);
    if (std::stoi(version.at("minor").get<std::string>()) >= 31) {
      conditions.insert(conditions.begin(),
                        json{{"type", "SuccessCriteriaMet"}, {"status", "True"}});
    }
    return conditions;
  }

  void complete(const json& job) const {
    const std::string now = "2026-01-01T00:00:00Z";
    patch_status("job", job.at("metadata").at("name"),
                 {{"active", 0},
                  {"succeeded", 1},
                  {"startTime", now},
                  {"completionTime", now},
                  {"uncountedTerminatedPods", json::object()},
                  {"conditions", conditions_of_success()}});
  }

  // Plays the newest Job of that CompileCache to its end: begin, then end with that report.
  // `found`: before, it tells of what another cluster left in the store.
  json sweep(const std::string& cache, json report = json::object(),
             const json& found = nullptr) const {
    json job;
    EXPECT_TRUE(eventually(seconds(30), [&] {
      for (const json& candidate : jobs(cache)) {
        if (!at(candidate, "/status/succeeded").is_number()) job = candidate;
      }
      return job.is_object();
    })) << process->log();
    const std::string token = pod_token(ns, make_sweep_pod(job));
    if (!found.is_null()) {
      const auto [status, answer] = process->call(
          "POST", "/v1/sweeps", token, {{"cache", cache}, {"phase", "adopt"}, {"found", found}});
      EXPECT_EQ(status, 200) << answer;
    }
    auto [begin_status, begin] =
        process->call("POST", "/v1/sweeps", token, {{"cache", cache}, {"phase", "begin"}});
    EXPECT_EQ(begin_status, 200) << begin;
    report["cache"] = cache;
    report["phase"] = "end";
    report["listed"] = true;
    auto [end_status, end] = process->call("POST", "/v1/sweeps", token, report);
    EXPECT_EQ(end_status, 200) << end;
    complete(job);
    return begin;
  }

  void make_ready_cache(const std::string& name, const json& spec = json::object()) const {
    make_claim(ns, "caches");
    ASSERT_EQ(make_cache(name, spec), "");
    sweep(name);
    ASSERT_TRUE(becomes(name, "Ready", "True")) << status(name) << process->log();
  }

  json plain_pod(const std::string& name, const std::string& cache) const {
    return {
        {"apiVersion", "v1"},
        {"kind", "Pod"},
        {"metadata",
         {{"name", name}, {"namespace", ns}, {"annotations", {{api::kCacheAnnotation, cache}}}}},
        {"spec",
         {{"nodeName", "node-h100"},
          {"serviceAccountName", "default"},
          {"containers",
           json::array({{{"name", "app"},
                         {"image", "example.com/app:1"},
                         {"resources", {{"limits", {{"nvidia.com/gpu", "1"}}}}}}})}}}};
  }

  // Injected by the webhook, then created: its token.
  std::string run_pod(const std::string& name, const std::string& cache) const {
    const auto pod = process->injected(plain_pod(name, cache), ns);
    EXPECT_TRUE(pod) << name << " is not injected";
    if (!pod) return "";
    EXPECT_EQ(apply(*pod), "");
    patch_status("pod", name, {{"phase", "Running"}});
    return pod_token(ns, name);
  }

  static std::string digest(const std::string& text) { return "sha256:" + sha256_hex(text); }

  // Asks for the lock until it is granted; the answer.
  json granted(const std::string& token, const std::string& cache,
               const std::string& attempt) const {
    json answer;
    EXPECT_TRUE(eventually(seconds(20),
                           [&] {
                             answer = process
                                          ->call("POST", "/v1/saves", token,
                                                 {{"cache", cache},
                                                  {"attempt", attempt},
                                                  {"new_files", 3},
                                                  {"new_bytes", 300}})
                                          .second;
                             return answer.value("decision", "") == "granted";
                           }))
        << answer << process->log();
    return answer;
  }

  std::pair<int, json> commit(const std::string& token, const json& save,
                              const std::string& name) const {
    const std::string manifest = digest("manifest " + name);
    return process->call("POST", "/v1/saves/" + save.at("id").get<std::string>() + "/commit", token,
                         {{"fence", save.at("fence")},
                          {"parent_digest", save.value("parent_digest", "")},
                          {"manifest_digest", manifest},
                          {"blobs", {manifest, digest("config " + name), digest("layer " + name)}},
                          {"compressed_bytes", 1000},
                          {"plain_bytes", 5000},
                          {"files", 3},
                          {"layers", 1},
                          {"compile_seconds", 12.5}});
  }

  static std::unique_ptr<OperatorProcess> process;
  std::string ns;
};

inline std::unique_ptr<OperatorProcess> OperatorTest::process;

// The API server itself asks the operator about pods of the test's namespace, by the configuration
// that is installed, once a test has called send_pods_to_the_webhook().
class ReviewedPods : public OperatorTest {
 protected:
  void TearDown() override {
    select_namespaces({{"matchLabels", {{"never", "matches"}}}});
    OperatorTest::TearDown();
  }

  void send_pods_to_the_webhook() const {
    kubectl({"delete", "service", api::kWebhookService, "-n", kOperatorNamespace});
    ASSERT_EQ(
        apply({{"apiVersion", "v1"},
               {"kind", "Service"},
               {"metadata", {{"name", api::kWebhookService}, {"namespace", kOperatorNamespace}}},
               {"spec", {{"type", "ExternalName"}, {"externalName", "localhost"}}}}),
        "");
    patch_webhook(json::array({{{"op", "replace"},
                                {"path", "/webhooks/0/clientConfig/service/port"},
                                {"value", process->webhook_port()}}}));
    select_namespaces({{"matchLabels", {{"kubernetes.io/metadata.name", ns}}}});
  }

 private:
  static void select_namespaces(const json& selector) {
    patch_webhook(json::array(
        {{{"op", "replace"}, {"path", "/webhooks/0/namespaceSelector"}, {"value", selector}}}));
  }
  static void patch_webhook(const json& patch) {
    const auto patched = kubectl({"patch", "mutatingwebhookconfiguration", "compilecache",
                                  "--type=json", "-p", patch.dump()});
    EXPECT_EQ(patched.exit_code, 0) << patched.err;
  }
};

}  // namespace compilecache::testing
