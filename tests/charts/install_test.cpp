#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "tests/charts/helm.hpp"
#include "tests/support/kubectl.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/registry_process.hpp"

// A release of the chart on a real API server, without nodes: on_cluster starts it.

namespace compilecache::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr char kRelease[] = "cc";

class Release : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  // So that the next one finds a cluster like new; a namespace alone ends by a controller, which is
  // not there.
  void TearDown() override {
    helm({"uninstall", kRelease, "-n", kChartNamespace, "--ignore-not-found"});
    kubectl({"delete", "--ignore-not-found", "crd", "compilecaches.compilecache.dev",
             "compilecachearchives.compilecache.dev"});
    fs::remove_all(folder_);
  }

  // `helm COMMAND cc CHART`, in the namespace.
  static ProcessResult call(const std::string& command, const json& values,
                            const std::vector<std::string>& options = {},
                            const std::string& from = chart()) {
    std::vector<std::string> arguments{
        command, kRelease, from, "-n", kChartNamespace, "--create-namespace", "--values", "-"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    return helm(arguments, values.dump());
  }
  static void install(const json& values, const std::vector<std::string>& options = {},
                      const std::string& from = chart()) {
    const ProcessResult done = call("install", values, options, from);
    ASSERT_EQ(done.exit_code, 0) << done.err;
  }
  static void upgrade(const json& values, const std::string& from = chart()) {
    const ProcessResult done = call("upgrade", values, {}, from);
    ASSERT_EQ(done.exit_code, 0) << done.err;
  }
  static void rollback(int revision) {
    const ProcessResult done =
        helm({"rollback", kRelease, std::to_string(revision), "-n", kChartNamespace});
    ASSERT_EQ(done.exit_code, 0) << done.err;
  }
  static void uninstall() {
    const ProcessResult done = helm({"uninstall", kRelease, "-n", kChartNamespace});
    ASSERT_EQ(done.exit_code, 0) << done.err;
  }

  static json deployment() {
    return get_json({"deployment", "compilecache-operator", "-n", kChartNamespace});
  }
  static json image() { return at(deployment(), "/spec/template/spec/containers/0/image"); }
  static json webhook() {
    return at(get_json({"mutatingwebhookconfiguration", "compilecache"}), "/webhooks/0");
  }

  static void create_cache() {
    ASSERT_EQ(apply({{"apiVersion", "compilecache.dev/v1alpha1"},
                     {"kind", "CompileCache"},
                     {"metadata", {{"name", "mine"}, {"namespace", "default"}}},
                     {"spec", {{"storage", {{"claimName", "caches"}}}}}}),
              "");
  }
  static bool cache_is_there() { return get_json({"cc", "mine", "-n", "default"}).is_object(); }

  // The chart's next version, whose CompileCaches have a column more.
  std::string next_chart() const {
    const fs::path next = folder_ / "next";
    fs::copy(chart(), next, fs::copy_options::recursive);
    replace(next / "Chart.yaml", "\nversion: 0.", "\nversion: 9.");
    replace(next / "templates/crds.yaml", "    additionalPrinterColumns:\n",
            "    additionalPrinterColumns:\n"
            "    - {name: Next, type: string, jsonPath: .spec.version}\n");
    return next;
  }
  static bool has_next_column() {
    const json crd = get_json({"crd", "compilecaches.compilecache.dev"});
    return crd.dump().find(R"("name":"Next")") != std::string::npos;
  }

  const fs::path folder_ = fs::temp_directory_path() / ("release-" + std::to_string(::getpid()));

 private:
  static void replace(const fs::path& file, const std::string& what, const std::string& by) {
    std::stringstream text;
    text << std::ifstream(file).rdbuf();
    std::string changed = text.str();
    const size_t found = changed.find(what);
    ASSERT_NE(found, std::string::npos) << file << " has no " << what;
    std::ofstream(file) << changed.replace(found, what.size(), by);
  }
};

const json kOwnKinds = {{"registry", {{"enabled", true}}},
                        {"metricsAccess", {{"enabled", true}}},
                        {"replaceStuckPods", {{"enabled", true}}}};

// Those of the objects that the API server has.
std::set<std::string> present(const Objects& objects) {
  json list = {{"apiVersion", "v1"}, {"kind", "List"}, {"items", json::array()}};
  for (const auto& [name, object] : objects) list["items"].push_back(object);
  const auto got = kubectl({"get", "--ignore-not-found", "-o", "json", "-f", "-"}, list.dump());
  EXPECT_EQ(got.exit_code, 0) << got.err;
  const json found = json::parse(got.out, nullptr, false);
  std::set<std::string> names;
  for (const json& item : found.value("items", json::array())) {
    names.insert(item.at("kind").get<std::string>() + "/" +
                 item.at("metadata").at("name").get<std::string>());
  }
  return names;
}

TEST_F(Release, MakesEveryObjectAndTakesAwayAllButWhatUsersKeep) {
  install(kOwnKinds);
  const Objects objects = rendered(kOwnKinds);
  EXPECT_GT(objects.size(), 25);
  std::set<std::string> all, kept;
  for (const auto& [name, object] : objects) {
    all.insert(name);
    if (at(object, "/metadata/annotations/helm.sh~1resource-policy") == "keep") kept.insert(name);
  }
  EXPECT_EQ(present(objects), all);
  create_cache();
  uninstall();
  EXPECT_EQ(present(objects), kept);
  EXPECT_TRUE(cache_is_there());
  install(kOwnKinds);  // of that name again, with what was kept
  EXPECT_TRUE(cache_is_there());
}

TEST_F(Release, UpgradesAndRollsBackAndLeavesWhatTheLeaderWrote) {
  install({});
  const auto patched =
      kubectl({"patch", "mutatingwebhookconfiguration", "compilecache", "--type=json", "-p",
               R"([{"op":"add","path":"/webhooks/0/clientConfig/service/path",
                                     "value":"/secret"}])"});
  ASSERT_EQ(patched.exit_code, 0) << patched.err;
  const json first = image();
  upgrade({{"image", {{"tag", "9.9.9"}}},
           {"operator", {{"replicas", 3}}},
           {"registry", {{"enabled", true}}}});
  EXPECT_TRUE(image().get<std::string>().ends_with("/compilecache:9.9.9")) << image();
  EXPECT_EQ(at(deployment(), "/spec/replicas"), 3);
  EXPECT_EQ(at(webhook(), "/clientConfig/service/path"), "/secret");
  rollback(1);
  EXPECT_EQ(image(), first);
  EXPECT_EQ(at(deployment(), "/spec/replicas"), 2);
  EXPECT_EQ(at(webhook(), "/clientConfig/service/path"), "/secret");
  EXPECT_TRUE(get_json({"deployment", "compilecache-registry", "-n", kChartNamespace}).is_null());
}

TEST_F(Release, BringsItsVersionOfTheResources) {
  install({});
  create_cache();
  EXPECT_FALSE(has_next_column());
  upgrade({}, next_chart());
  EXPECT_TRUE(has_next_column());
  rollback(1);
  EXPECT_FALSE(has_next_column());
  EXPECT_TRUE(cache_is_there());
}

// Helm looks up every kind before it creates the first object, so a cluster without the resources
// refuses CompileCaches in words that say what to do. Nothing is left behind then.
TEST_F(Release, CreatesCompileCachesOnceTheirResourcesAreThere) {
  const json values = {{"caches",
                        {{{"name", "llama"},
                          {"namespace", "default"},
                          {"spec", {{"storage", {{"claimName", "caches"}}}}}}}}};
  const auto cache = [] { return get_json({"cc", "llama", "-n", "default"}); };
  const ProcessResult refused = call("install", values);
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_NE(refused.err.find("ensure CRDs are installed first"), std::string::npos) << refused.err;
  EXPECT_TRUE(deployment().is_null());
  install({});
  upgrade(values);
  EXPECT_EQ(at(cache(), "/spec/storage/claimName"), "caches");
  upgrade({});
  EXPECT_TRUE(cache().is_object()) << "it went, and its archives with it";
}

// What users of the roles may do that Kubernetes' own take up. (The controller that adds the rules
// to those does not run here.)
TEST_F(Release, LetsEditorsWriteCompileCachesButNotArchives) {
  install({});
  for (const char* role : {"view", "edit"}) {
    const auto bound =
        kubectl({"create", "rolebinding", role, "-n", "default",
                 "--clusterrole=compilecache-" + std::string(role), "--user=" + std::string(role)});
    ASSERT_EQ(bound.exit_code, 0) << bound.err;
  }
  const auto may = [](const std::string& user, const std::string& verb, const std::string& what) {
    return kubectl(
               {"auth", "can-i", verb, what + ".compilecache.dev", "-n", "default", "--as", user})
               .exit_code == 0;
  };
  EXPECT_TRUE(may("view", "list", "compilecaches"));
  EXPECT_TRUE(may("view", "get", "compilecachearchives"));
  EXPECT_FALSE(may("view", "delete", "compilecachearchives"));
  EXPECT_FALSE(may("view", "create", "compilecaches"));
  EXPECT_TRUE(may("edit", "create", "compilecaches"));
  EXPECT_TRUE(may("edit", "patch", "compilecaches"));
  EXPECT_TRUE(may("edit", "delete", "compilecachearchives"));
  // They would choose what pods load.
  EXPECT_FALSE(may("edit", "create", "compilecachearchives"));
  EXPECT_FALSE(may("edit", "update", "compilecachearchives/status"));
}

// The API server takes what the values for pods, webhook and budget say.
TEST_F(Release, AcceptsEveryKindOfExtra) {
  const json volume = {{"name", "ca"}, {"configMap", {{"name", "ca"}}}};
  const json mount = {{"name", "ca"}, {"mountPath", "/etc/api-server-ca"}, {"readOnly", true}};
  const json proxy = {{"name", "HTTPS_PROXY"}, {"value", "http://proxy:3128"}};
  const json pod = {{"extraEnv", {proxy}},
                    {"extraVolumes", {volume}},
                    {"extraVolumeMounts", {mount}},
                    {"dnsConfig", {{"options", {{{"name", "ndots"}, {"value", "1"}}}}}},
                    {"hostAliases", {{{"ip", "10.0.0.1"}, {"hostnames", {"api"}}}}}};
  json values = {{"operator", pod},
                 {"registry", pod},
                 {"fullnameOverride", "kernels"},
                 {"commonLabels", {{"team", "ml"}}},
                 {"dashboard", {{"enabled", true}}},
                 {"webhook",
                  {{"hostNetwork", true},
                   {"port", 19443},
                   {"timeoutSeconds", 5},
                   {"namespaceSelector", {{"matchLabels", {{"team", "ml"}}}}},
                   {"objectSelector", {{"matchLabels", {{"team", "ml"}}}}}}},
                 {"extraObjects",
                  {{{"apiVersion", "v1"},
                    {"kind", "ConfigMap"},
                    {"metadata", {{"name", "ca"}, {"namespace", kChartNamespace}}}}}}};
  values["operator"]["podDisruptionBudget"]["maxUnavailable"] = 1;
  values["operator"]["strategy"]["type"] = "Recreate";
  values["registry"]["enabled"] = true;
  install(values);
  EXPECT_EQ(present(rendered(values)).size(), rendered(values).size());
  EXPECT_EQ(at(webhook(), "/timeoutSeconds"), 5);
  EXPECT_EQ(at(webhook(), "/failurePolicy"), "Ignore");
}

// docs/run/install.md: from kubectl to Helm.
TEST_F(Release, TakesOverWhatKubectlInstalled) {
  const auto applied = kubectl({"apply", "-f", in_tree("config/install.yaml")});
  ASSERT_EQ(applied.exit_code, 0) << applied.err;
  create_cache();
  const json values = {{"image", {{"repository", "r.example.com/cc"}}}};
  const ProcessResult refused = call("install", values);
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_NE(refused.err.find("cannot be imported"), std::string::npos) << refused.err;
  std::vector<std::string> options{"--take-ownership"};
  // Helm 3 does not know it, and does the same without.
  if (!helm({"version", "--short"}).out.starts_with("v3."))
    options.push_back("--server-side=false");
  install(values, options);
  EXPECT_EQ(image().get<std::string>().find("r.example.com/cc:"), 0) << image();
  upgrade({{"operator", {{"extraArgs", {"--log-level=debug"}}}}});
  EXPECT_EQ(at(deployment(), "/spec/template/spec/containers/0/args/1"), "--log-level=debug");
  EXPECT_TRUE(cache_is_there());
}

// The pods that the Deployments and the Jobs of `helm test` would create.
json pod_of(const json& object, const std::string& ns) {
  json pod = at(object, "/spec/template");
  pod["apiVersion"] = "v1";
  pod["kind"] = "Pod";
  pod["metadata"]["name"] = at(object, "/metadata/name");
  pod["metadata"]["namespace"] = ns;
  pod["spec"].erase("serviceAccountName");  // which nobody makes here
  return pod;
}

void expect_accepted(const json& object) {
  const auto tried =
      kubectl({"apply", "--dry-run=server", "--validate=strict", "-f", "-"}, object.dump());
  EXPECT_EQ(tried.exit_code, 0) << tried.err << object.dump();
}

TEST_F(Release, HasPodsThatFitRestrictedNamespaces) {
  install(kOwnKinds);  // the resources
  const std::string ns = std::string(kChartNamespace) + "-test";
  int pods = 0;
  for (const json& values : {kOwnKinds, json::object()}) {
    Objects objects = rendered(values, kChartNamespace, Hooks::kOnly);
    const json test_namespace = objects.at("Namespace/" + ns);
    ASSERT_EQ(apply(test_namespace), "");
    ASSERT_EQ(
        at(get_json({"namespace", ns}), "/metadata/labels/pod-security.kubernetes.io~1enforce"),
        "restricted");
    objects.merge(rendered(values));
    for (const auto& [name, object] : objects) {
      if (at(object, "/metadata/namespace") == ns) expect_accepted(object);
      if (at(object, "/spec/template/spec/containers").is_null()) continue;
      expect_accepted(pod_of(object, ns));
      ++pods;
    }
  }
  EXPECT_EQ(pods, 7);  // operator, registry, its reader, cold, warm; operator, injected
}

TEST_F(Release, ComesFromARegistryOfCharts) {
  const std::string missing = missing_registry(RegistryKind::kDistribution);
  if (!missing.empty()) GTEST_SKIP() << missing;
  const RegistryProcess registry(RegistryKind::kDistribution, folder_ / "registry");
  ASSERT_EQ(registry.problem(), "");
  const ProcessResult packed = helm({"package", chart(), "--destination", folder_});
  ASSERT_EQ(packed.exit_code, 0) << packed.err;
  std::string file;
  for (const auto& entry : fs::directory_iterator(folder_)) {
    if (entry.path().extension() == ".tgz") file = entry.path();
  }
  const std::string place = "oci://" + registry.host() + "/charts";
  const ProcessResult pushed = helm({"push", file, place, "--plain-http"});
  ASSERT_EQ(pushed.exit_code, 0) << pushed.err;
  const ProcessResult from_registry =
      helm({"template", "try", place + "/compile-cache", "--plain-http"});
  EXPECT_EQ(from_registry.exit_code, 0) << from_registry.err;
  EXPECT_EQ(from_registry.out, helm({"template", "try", chart()}).out);
  install({}, {"--plain-http"}, place + "/compile-cache");
  EXPECT_FALSE(image().is_null());
}

}  // namespace
}  // namespace compilecache::testing
