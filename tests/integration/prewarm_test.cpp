// `kubectl compilecache prewarm` on a real API server with the operator's webhook; the test is
// scheduler, kubelet and agent. With pods that run: tests/e2e/prewarm_test.cpp.

#include <signal.h>

#include <filesystem>
#include <fstream>
#include <future>

#include "tests/integration/operator_fixture.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/process.hpp"

namespace compilecache::testing {
namespace {

constexpr char kProduct[] = "NVIDIA-H100-80GB-HBM3";

class Prewarm : public OperatorTest {
 protected:
  static void SetUpTestSuite() {
    OperatorTest::SetUpTestSuite();
    // As its kubelet and its device plugin would have it.
    kubectl({"patch", "node", "node-h100", "--type=merge", "-p", R"({"spec":{"taints":null}})"});
    kubectl(
        {"patch", "node", "node-h100", "--subresource=status", "--type=merge", "-p",
         R"({"status":{"allocatable":{"nvidia.com/gpu":"8"},"capacity":{"nvidia.com/gpu":"8"}}})"});
  }

  void SetUp() override {
    OperatorTest::SetUp();
    send_pods_to(process->webhook_port());
  }
  // For the tests that come after: no pod is sent anywhere.
  void TearDown() override {
    kubectl({"delete", "service", api::kWebhookService, "-n", kOperatorNamespace});
    EXPECT_EQ(install_operator(), "");
    OperatorTest::TearDown();
  }

  // Our namespace's pods go there by way of the Service's name, which the certificate is for.
  void send_pods_to(uint16_t port) const {
    kubectl({"delete", "service", api::kWebhookService, "-n", kOperatorNamespace});
    ASSERT_EQ(
        apply({{"apiVersion", "v1"},
               {"kind", "Service"},
               {"metadata", {{"name", api::kWebhookService}, {"namespace", kOperatorNamespace}}},
               {"spec", {{"type", "ExternalName"}, {"externalName", "localhost"}}}}),
        "");
    const json patch = json::array(
        {{{"op", "replace"}, {"path", "/webhooks/0/clientConfig/service/port"}, {"value", port}},
         {{"op", "replace"},
          {"path", "/webhooks/0/namespaceSelector"},
          {"value", {{"matchLabels", {{"kubernetes.io/metadata.name", ns}}}}}}});
    const auto patched = kubectl({"patch", "mutatingwebhookconfiguration", "compilecache",
                                  "--type=json", "-p", patch.dump()});
    ASSERT_EQ(patched.exit_code, 0) << patched.err;
  }

  std::vector<std::string> command(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(),
                     {testing::in_build("cli/kubectl-compilecache"), "prewarm", "-n", ns});
    return arguments;
  }
  ProcessResult prewarm(const std::vector<std::string>& arguments) const {
    return run_process(command(arguments));
  }

  json deployment(const json& annotations) const {
    return {{"apiVersion", "apps/v1"},
            {"kind", "Deployment"},
            {"metadata", {{"name", "web"}, {"namespace", ns}}},
            {"spec",
             {{"selector", {{"matchLabels", {{"app", "web"}}}}},
              {"template",
               {{"metadata",
                 {{"labels", {{"app", "web"}, {"team", "a"}}}, {"annotations", annotations}}},
                {"spec", plain_pod("p", "llama")["spec"]}}}}}};
  }
  std::vector<json> prewarm_pods() const {
    return read_list({"pods", "-n", ns, "-l", "compilecache.dev/prewarm"});
  }
  void expect(const ProcessResult& result, int exit_code, const std::string& told) const {
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    EXPECT_NE(result.err.find(told), std::string::npos) << told << " is missing in " << result.err;
    EXPECT_TRUE(prewarm_pods().empty());
  }
  // The pod that the command makes, once it is there.
  json made_pod() const {
    std::vector<json> pods;
    EXPECT_TRUE(eventually(seconds(60), [&] { return (pods = prewarm_pods()).size() == 1; }));
    return pods.empty() ? json() : pods[0];
  }
  void make_workload(const json& spec) const {
    make_ready_cache("llama", spec);
    ASSERT_EQ(apply(deployment({{api::kCacheAnnotation, "llama"}})), "");
    // Until the API server has seen the webhook's configuration and its CA.
    ASSERT_TRUE(eventually(seconds(30), [&] {
      const auto tried = kubectl({"create", "--dry-run=server", "-o", "json", "-f", "-"},
                                 plain_pod("try", "llama").dump());
      return tried.out.find(api::kStatusAnnotation) != std::string::npos;
    }));
  }
  // The kubelet's part after the pod's deletion.
  void let_it_go(const std::string& pod) const {
    EXPECT_TRUE(eventually(seconds(30), [&] {
      return at(read({"pod", pod, "-n", ns}), "/metadata/deletionTimestamp").is_string();
    }));
    kubectl({"delete", "pod", pod, "-n", ns, "--force", "--grace-period=0"});
  }
};

TEST_F(Prewarm, SaysWhatIsMissingAndMakesNothing) {
  expect(prewarm({"deployment/web"}), 2, "Error: Deployment \"web\" not found in namespace");
  expect(prewarm({"service/web"}), 2, "names no workload");
  expect(prewarm({}), 2, "WORKLOAD or -f");
  expect(prewarm({"deployment/web", "--timeout", "soon"}), 2, "--timeout");
  ASSERT_EQ(apply(deployment({{"a", "b"}})), "");
  expect(prewarm({"deployment/web"}), 1, "no annotation compilecache.dev/cache");
  ASSERT_EQ(apply(deployment({{api::kCacheAnnotation, "llama"}})), "");
  expect(prewarm({"deployment/web"}), 1, "Error: CompileCache \"llama\" not found in namespace");
  ASSERT_EQ(make_cache("llama", {{"storage", {{"claimName", "nowhere"}}}}), "");
  ASSERT_TRUE(becomes("llama", "Ready", "False"));
  expect(prewarm({"deployment/web"}), 1, "CompileCache llama is not ready");
}

TEST_F(Prewarm, APodThatNobodySelectsWarmsTheArchiveOfTheNewImage) {
  make_workload({{"key", {"GPUProduct", "GPUCount", "Architecture", "Image", "Workload"}}});
  expect(prewarm({"deployment/web", "--gpu", "NVIDIA-L4"}), 1,
         std::string("there are: ") + kProduct);

  const std::vector<std::string> arguments{"deployment/web", "--image", "example.com/app:2", "-o",
                                           "json"};
  auto running = std::async(std::launch::async, [&] { return prewarm(arguments); });
  const json pod = made_pod();
  const std::string name = at(pod, "/metadata/name");
  EXPECT_EQ(at(pod, "/metadata/labels/app"), json());
  EXPECT_EQ(at(pod, "/metadata/labels/team"), "a");
  EXPECT_EQ(at(pod, "/metadata/ownerReferences"), json());
  EXPECT_EQ(at(pod, "/spec/containers/0/image"), "example.com/app:2");
  patch_status("pod", name,
               {{"phase", "Running"},
                {"containerStatuses", json::array({{{"name", "app"},
                                                    {"ready", true},
                                                    {"restartCount", 0},
                                                    {"image", "a"},
                                                    {"imageID", ""}}})}});
  const std::string token = pod_token(ns, name);
  ASSERT_EQ(process->call("POST", "/v1/load", token, {{"cache", "llama"}}).first, 200);
  ASSERT_TRUE(
      commit(token, granted(token, "llama", "a1"), "one").second.contains("manifest_digest"));
  let_it_go(name);
  const ProcessResult result = running.get();
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json told = json::parse(result.out);
  ASSERT_EQ(told.size(), 1u) << told;
  EXPECT_EQ(told[0]["outcome"], "warmed");
  EXPECT_EQ(told[0]["gpuProduct"], kProduct);
  const json archive = read({"cca", told[0]["archive"], "-n", ns});
  EXPECT_EQ(at(archive, "/spec/key/Workload"), "Deployment/web") << archive;
  EXPECT_EQ(at(archive, "/status/head/savedBy"), name);

  const ProcessResult again = prewarm(arguments);
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(json::parse(again.out)[0]["outcome"], "already warm");
  EXPECT_TRUE(prewarm_pods().empty());
}

TEST_F(Prewarm, ASignalTakesThePodAway) {
  make_workload(json::object());
  const std::string now = ::testing::TempDir() + "prewarm-" + ns;
  auto ended = command({"deployment/web"});
  ended.insert(ended.begin(), {"sh", "-c",
                               "\"$@\" & p=$!; while [ ! -e " + now +
                                   " ]; do sleep 0.2; done; kill -TERM $p; wait $p",
                               "sh"});
  auto running = std::async(std::launch::async, [&] { return run_process(ended); });
  const std::string name = at(made_pod(), "/metadata/name");
  std::ofstream(now) << "\n";
  let_it_go(name);
  const ProcessResult result = running.get();
  EXPECT_EQ(result.exit_code, 128 + SIGTERM) << result.err;
  EXPECT_NE(result.out.find("interrupted"), std::string::npos) << result.out;
  EXPECT_TRUE(prewarm_pods().empty());
  std::filesystem::remove(now);
}

}  // namespace
}  // namespace compilecache::testing
