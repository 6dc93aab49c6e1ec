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
  // What the kubelet does once the pod is told to end.
  void let_it_go(const std::string& pod) const {
    EXPECT_TRUE(eventually(seconds(30), [&] {
      return at(read({"pod", pod, "-n", ns}), "/metadata/deletionTimestamp").is_string();
    }));
    kubectl({"delete", "pod", pod, "-n", ns, "--force", "--grace-period=0"});
  }
};

TEST_F(Prewarm, SaysWhatIsMissingAndMakesNothing) {
  expect(prewarm({"deployment/web"}), 2, "reading Deployment " + ns + "/web");
  expect(prewarm({"service/web"}), 2, "names no workload");
  expect(prewarm({}), 2, "WORKLOAD or -f");
  expect(prewarm({"deployment/web", "--timeout", "soon"}), 2, "--timeout");
  ASSERT_EQ(apply(deployment({{"a", "b"}})), "");
  expect(prewarm({"deployment/web"}), 1, "no annotation compilecache.dev/cache");
  ASSERT_EQ(apply(deployment({{api::kCacheAnnotation, "llama"}})), "");
  expect(prewarm({"deployment/web"}), 1, "reading CompileCache " + ns + "/llama");
  ASSERT_EQ(make_cache("llama", {{"storage", {{"claimName", "nowhere"}}}}), "");
  ASSERT_TRUE(becomes("llama", "Ready", "False"));
  expect(prewarm({"deployment/web"}), 1, "CompileCache llama is not ready");
}

}  // namespace
}  // namespace compilecache::testing
