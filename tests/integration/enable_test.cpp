// `kubectl compilecache enable` on a real API server: the objects that it leaves.

#include <filesystem>
#include <fstream>

#include "tests/integration/operator_fixture.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/process.hpp"

namespace compilecache::testing {
namespace {

class EnableWorkload : public OperatorTest {
 protected:
  void SetUp() override {
    OperatorTest::SetUp();
    const json patch = json::array({{{"op", "replace"},
                                     {"path", "/webhooks/0/namespaceSelector"},
                                     {"value", json::object()}}});
    const auto patched = kubectl({"patch", "mutatingwebhookconfiguration", "compilecache",
                                  "--type=json", "-p", patch.dump()});
    ASSERT_EQ(patched.exit_code, 0) << patched.err;
    make_claim(ns, "caches");
    ASSERT_EQ(apply({{"apiVersion", "apps/v1"},
                     {"kind", "Deployment"},
                     {"metadata", {{"name", "web"}, {"namespace", ns}}},
                     {"spec",
                      {{"selector", {{"matchLabels", {{"app", "web"}}}}},
                       {"template",
                        {{"metadata", {{"labels", {{"app", "web"}}}}},
                         {"spec", plain_pod("p", "web")["spec"]}}}}}}),
              "");
  }
  void TearDown() override {
    EXPECT_EQ(install_operator(), "");
    OperatorTest::TearDown();
  }

  ProcessResult enable(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {testing::in_build("cli/kubectl-compilecache"), "enable",
                                         "deployment/web", "-n", ns});
    return run_process(arguments);
  }
  json pod_template() const { return at(read({"deployment", "web", "-n", ns}), "/spec/template"); }

  // A user who may do that with CompileCaches and may read Deployments.
  std::string kubeconfig_of(const std::string& user) const {
    const json role = {
        {"apiVersion", "rbac.authorization.k8s.io/v1"},
        {"kind", "Role"},
        {"metadata", {{"name", user}, {"namespace", ns}}},
        {"rules",
         {{{"apiGroups", {"compilecache.dev"}},
           {"resources", {"compilecaches"}},
           {"verbs", {"get", "create", "delete"}}},
          {{"apiGroups", {"apps"}}, {"resources", {"deployments"}}, {"verbs", {"get"}}}}}};
    EXPECT_EQ(apply(role), "");
    kubectl({"create", "serviceaccount", user, "-n", ns});
    kubectl({"create", "rolebinding", user, "-n", ns, "--role=" + user,
             "--serviceaccount=" + ns + ":" + user});
    std::string token = kubectl({"create", "token", user, "-n", ns}).out;
    token.erase(token.find_last_not_of('\n') + 1);
    json config = json::parse(
        kubectl({"config", "view", "--raw", "--minify", "--flatten", "-o", "json"}).out);
    config["users"][0]["user"] = {{"token", token}};
    const std::string path = ::testing::TempDir() + ns + "-" + user;
    std::ofstream(path) << config;
    return path;
  }
};

TEST_F(EnableWorkload, ItsPodsAreInjectedAfterwards) {
  const json before = pod_template();
  const ProcessResult shown = enable({"--storage", "claim=caches"});
  ASSERT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_NE(shown.err.find("Nothing was changed"), std::string::npos) << shown.err;
  EXPECT_TRUE(get_json({"compilecache", "web", "-n", ns}).is_null());
  EXPECT_EQ(pod_template(), before);

  // The YAML that is shown is for kubectl, too.
  const auto tried = kubectl({"apply", "--server-side", "--dry-run=server", "-f", "-"}, shown.out);
  EXPECT_EQ(tried.exit_code, 0) << tried.err;

  const ProcessResult done = enable({"--storage", "claim=caches", "--yes"});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  const json spec = at(read({"compilecache", "web", "-n", ns}), "/spec");
  EXPECT_EQ(at(spec, "/storage/claimName"), "caches");
  EXPECT_EQ(at(spec, "/frameworks"), json({"torch", "triton"}));
  json expected = before;
  expected["metadata"]["annotations"] = {{api::kCacheAnnotation, "web"}};
  EXPECT_EQ(pod_template(), expected);

  kubectl({"patch", "compilecache", "web", "-n", ns, "--type=merge", "-p",
           R"({"spec":{"frameworks":["torch"]}})"});  // the one that this operator's settings know
  sweep("web");
  ASSERT_TRUE(becomes("web", "Ready", "True"));
  json pod = pod_template();
  pod["apiVersion"] = "v1";
  pod["kind"] = "Pod";
  pod["metadata"]["name"] = "web-1";
  const auto injected = process->injected(pod, ns);
  ASSERT_TRUE(injected);
  EXPECT_EQ(at(*injected, "/spec/initContainers/0/name"), api::kLoaderContainer);

  const ProcessResult again = enable({"--yes"});
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_NE(again.out.find("is enabled already, with CompileCache web"), std::string::npos);
}

TEST_F(EnableWorkload, NothingIsLeftForAUserWhoMayNotPatchIt) {
  const json before = pod_template();
  const std::string kubeconfig = kubeconfig_of("reader");
  const ProcessResult tried =
      enable({"--storage", "claim=caches", "--yes", "--kubeconfig", kubeconfig});
  EXPECT_EQ(tried.exit_code, 1) << tried.out;
  EXPECT_NE(tried.err.find("CompileCache web was deleted again"), std::string::npos) << tried.err;
  EXPECT_NE(tried.err.find("may not read it: the webhook's configuration"), std::string::npos)
      << tried.err;
  EXPECT_TRUE(get_json({"compilecache", "web", "-n", ns}).is_null());
  EXPECT_EQ(pod_template(), before);
  std::filesystem::remove(kubeconfig);
}

TEST_F(EnableWorkload, ANamespaceThatTheWebhookLeavesOutIsRefused) {
  ASSERT_EQ(install_operator(), "");  // matches no namespace
  const ProcessResult refused = enable({"--storage", "claim=caches", "--yes"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_NE(refused.err.find("leaves out the namespace by its namespaceSelector"),
            std::string::npos)
      << refused.err;
  EXPECT_TRUE(get_json({"compilecache", "web", "-n", ns}).is_null());
}

}  // namespace
}  // namespace compilecache::testing
