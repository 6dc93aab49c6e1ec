#include <gtest/gtest.h>

#include <regex>

#include "tests/charts/helm.hpp"
#include "tests/support/kubectl.hpp"
#include "tests/unit/config/yaml_json.hpp"

// Each value of the chart changes what it says and nothing else; the schema refuses what cannot be.

namespace compilecache::testing {
namespace {

using nlohmann::json;
using Changes = std::map<std::string, json>;

constexpr char kOperatorPath[] = "/Deployment~1compilecache-operator";
constexpr char kRegistryPath[] = "/Deployment~1compilecache-registry";
constexpr char kMonitorPath[] = "/ServiceMonitor~1compilecache-operator";
constexpr char kRulesPath[] = "/PrometheusRule~1compilecache";
constexpr char kClaimPath[] = "/PersistentVolumeClaim~1compilecache-registry";
constexpr char kCertificatePath[] = "/Certificate~1compilecache-serving";
constexpr char kRegistryCertificate[] = "/Certificate~1compilecache-registry";
constexpr char kPolicyImage[] =
    "/ValidatingAdmissionPolicy~1compilecache-operator-jobs/spec/variables/0/expression";
constexpr char kPod[] = "/spec/template/spec";

// A value and all that it changes.
struct Value {
  std::string name;  // dots between the keys
  json value;
  Changes changed;
  json beside = json::object();  // what else is set, before and after
};

json nested(const std::string& name, const json& value) {
  const size_t dot = name.find('.');
  if (dot == std::string::npos) return {{name, value}};
  return {{name.substr(0, dot), nested(name.substr(dot + 1), value)}};
}

json as_json(const Objects& objects) {
  json all = json::object();
  for (const auto& [name, object] : objects) all[name] = object;
  return all;
}

const json kWithRegistry = nested("registry.enabled", true);
const json kWithMonitoring = nested("monitoring.enabled", true);

// Of the operator's pod and of the registry's.
void add_placement(std::vector<Value>& all, const std::string& of, const std::string& deployment,
                   const json& beside) {
  const std::string pod = deployment + kPod;
  const json tolerations = {{{"key", "gpu"}, {"operator", "Exists"}, {"effect", "NoSchedule"}}};
  const json affinity = {
      {"nodeAffinity",
       {{"requiredDuringSchedulingIgnoredDuringExecution",
         {{"nodeSelectorTerms",
           {{{"matchExpressions", {{{"key", "gpu"}, {"operator", "DoesNotExist"}}}}}}}}}}}};
  const json spread = {{{"maxSkew", 2},
                        {"topologyKey", "topology.kubernetes.io/zone"},
                        {"whenUnsatisfiable", "DoNotSchedule"}}};
  const json node = {{"kubernetes.io/arch", "amd64"}};
  all.push_back({of + ".nodeSelector", node, {{pod + "/nodeSelector", node}}, beside});
  all.push_back({of + ".tolerations", tolerations, {{pod + "/tolerations", tolerations}}, beside});
  all.push_back({of + ".affinity", affinity, {{pod + "/affinity", affinity}}, beside});
  if (of == "operator") {
    all.push_back({of + ".topologySpreadConstraints",
                   json::array(),
                   {{pod + "/topologySpreadConstraints", json()}},
                   beside});
  } else {
    all.push_back({of + ".topologySpreadConstraints",
                   spread,
                   {{pod + "/topologySpreadConstraints", spread}},
                   beside});
  }
  all.push_back({of + ".priorityClassName",
                 "system-cluster-critical",
                 {{pod + "/priorityClassName", "system-cluster-critical"}},
                 beside});
  const std::string metadata = deployment + "/spec/template/metadata";
  all.push_back({of + ".podLabels", {{"team", "ml"}}, {{metadata + "/labels/team", "ml"}}, beside});
  all.push_back({of + ".podAnnotations",
                 {{"sidecar.istio.io/inject", "false"}},
                 {{metadata + "/annotations/sidecar.istio.io~1inject", "false"}},
                 beside});
}

void add_registry(std::vector<Value>& all) {
  const std::string pod = std::string(kRegistryPath) + kPod;
  const auto images = [&](const json& image) {
    return Changes{{pod + "/containers/0/image", image}, {pod + "/initContainers/0/image", image}};
  };
  all.push_back({"registry.image.repository", "mirror.example.com/registry",
                 images("mirror.example.com/registry:3"), kWithRegistry});
  all.push_back(
      {"registry.image.tag", "3.1.2", images("docker.io/library/registry:3.1.2"), kWithRegistry});
  const std::string digest = "sha256:" + std::string(64, 'a');
  all.push_back({"registry.image.digest", digest, images("docker.io/library/registry:3@" + digest),
                 kWithRegistry});
  all.push_back({"registry.image.pullPolicy",
                 "Always",
                 {{pod + "/containers/0/imagePullPolicy", "Always"},
                  {pod + "/initContainers/0/imagePullPolicy", "Always"}},
                 kWithRegistry});
  all.push_back({"registry.storage.size",
                 "2Ti",
                 {{std::string(kClaimPath) + "/spec/resources/requests/storage", "2Ti"}},
                 kWithRegistry});
  all.push_back({"registry.storage.storageClass",
                 "fast",
                 {{std::string(kClaimPath) + "/spec/storageClassName", "fast"}},
                 kWithRegistry});
  // No class, which is not the same as the default one.
  all.push_back({"registry.storage.storageClass",
                 "-",
                 {{std::string(kClaimPath) + "/spec/storageClassName", ""}},
                 kWithRegistry});
  all.push_back({"registry.resources.requests.cpu",
                 "1",
                 {{pod + "/containers/0/resources/requests/cpu", "1"},
                  {pod + "/initContainers/0/resources/requests/cpu", "1"}},
                 kWithRegistry});
  all.push_back({"registry.resources.requests.memory",
                 "1Gi",
                 {{pod + "/containers/0/resources/requests/memory", "1Gi"},
                  {pod + "/initContainers/0/resources/requests/memory", "1Gi"}},
                 kWithRegistry});
  all.push_back({"registry.resources.limits.memory",
                 "2Gi",
                 {{pod + "/containers/0/resources/limits/memory", "2Gi"},
                  {pod + "/initContainers/0/resources/limits/memory", "2Gi"}},
                 kWithRegistry});
}

void add_operator(std::vector<Value>& all) {
  const std::string pod = std::string(kOperatorPath) + kPod;
  const std::string container = pod + "/containers/0";
  const std::string usual = "docker.io/library/compilecache";
  const auto images = [&](const std::string& image) {
    return Changes{{container + "/image", image}, {kPolicyImage, "'" + image + "'"}};
  };
  const std::string version =
      read_yaml_file("charts/compile-cache/Chart.yaml").at("appVersion").get<std::string>();
  all.push_back({"image.repository", "r.example.com:5000/ml/cc",
                 images("r.example.com:5000/ml/cc:" + version)});
  all.push_back({"image.tag", "9.9.9", images(usual + ":9.9.9")});
  const std::string digest = "sha256:" + std::string(64, '0');
  all.push_back({"image.digest", digest, images(usual + "@" + digest)});
  all.push_back({"image.pullPolicy", "Always", {{container + "/imagePullPolicy", "Always"}}});
  const json secrets = {{{"name", "robot"}}};
  all.push_back({"imagePullSecrets",
                 secrets,
                 {{pod + "/imagePullSecrets", secrets},
                  {std::string(kRegistryPath) + kPod + "/imagePullSecrets", secrets}},
                 kWithRegistry});
  all.push_back({"operator.replicas", 3, {{std::string(kOperatorPath) + "/spec/replicas", 3}}});
  // A budget of one that must stay would keep the only one's node from being drained.
  all.push_back({"operator.replicas",
                 1,
                 {{std::string(kOperatorPath) + "/spec/replicas", 1},
                  {"/PodDisruptionBudget~1compilecache-operator", json()}}});
  all.push_back(
      {"operator.resources.requests.cpu", "1", {{container + "/resources/requests/cpu", "1"}}});
  all.push_back({"operator.resources.requests.memory",
                 "1Gi",
                 {{container + "/resources/requests/memory", "1Gi"}}});
  all.push_back({"operator.resources.limits.memory",
                 "1Gi",
                 {{container + "/resources/limits/memory", "1Gi"}}});
  all.push_back({"operator.resources.limits", json(), {{container + "/resources/limits", json()}}});
  all.push_back({"operator.extraArgs",
                 {"--log-level=debug"},
                 {{container + "/args",
                   {"--settings=/etc/compilecache/settings.yaml", "--log-level=debug"}}}});
}

void add_others(std::vector<Value>& all) {
  all.push_back({"monitoring.interval",
                 "2m",
                 {{std::string(kMonitorPath) + "/spec/endpoints/0/interval", "2m"}},
                 kWithMonitoring});
  all.push_back({"monitoring.labels",
                 {{"release", "prometheus"}},
                 {{std::string(kMonitorPath) + "/metadata/labels/release", "prometheus"},
                  {std::string(kRulesPath) + "/metadata/labels/release", "prometheus"}},
                 kWithMonitoring});
  const json issuer = {{"name", "company"}, {"kind", "ClusterIssuer"}};
  json beside = kWithRegistry;
  beside["certManager"]["enabled"] = true;
  all.push_back({"certManager.issuerRef",
                 issuer,
                 {{std::string(kCertificatePath) + "/spec/issuerRef/kind", "ClusterIssuer"},
                  {std::string(kCertificatePath) + "/spec/issuerRef/name", "company"},
                  {std::string(kRegistryCertificate) + "/spec/issuerRef/kind", "ClusterIssuer"},
                  {std::string(kRegistryCertificate) + "/spec/issuerRef/name", "company"},
                  {"/Certificate~1compilecache-authority", json()},
                  {"/Issuer~1compilecache-authority", json()},
                  {"/Issuer~1compilecache-self-signed", json()}},
                 beside});
}

std::vector<Value> values() {
  std::vector<Value> all;
  add_operator(all);
  add_placement(all, "operator", kOperatorPath, json::object());
  add_registry(all);
  add_placement(all, "registry", kRegistryPath, kWithRegistry);
  add_others(all);
  return all;
}

TEST(ChartValues, EachChangesWhatItSaysAndNothingElse) {
  std::map<std::string, json> before;  // by what is set beside
  for (const Value& value : values()) {
    json set = value.beside;
    set["crds"]["install"] = false;  // which takes longest to parse
    json& usual = before[set.dump()];
    if (usual.is_null()) usual = as_json(rendered(set));
    set.merge_patch(nested(value.name, "placeholder"));
    set[json::json_pointer("/" + std::regex_replace(value.name, std::regex("\\."), "/"))] =
        value.value;
    EXPECT_EQ(json(changes(usual, as_json(rendered(set)))), json(value.changed)) << value.name;
  }
}

// All there are, but for those that objects_test.cpp tries (whether a component is there) and
// settings_test.cpp.
void collect_names(const json& values, const std::string& prefix, std::set<std::string>& names) {
  for (const auto& [key, value] : values.items()) {
    if (value.is_object() && !value.empty()) {
      collect_names(value, prefix + key + ".", names);
    } else {
      names.insert(prefix + key);
    }
  }
}

TEST(ChartValues, NoneIsNotTried) {
  std::set<std::string> names;
  collect_names(read_yaml_file("charts/compile-cache/values.yaml"), "", names);
  std::erase_if(names, [](const std::string& name) { return name.ends_with(".enabled"); });
  for (const char* name : {"crds.install", "settings", "frameworks"}) {
    EXPECT_EQ(names.erase(name), 1) << name;
  }
  for (const Value& value : values()) names.erase(value.name);
  EXPECT_EQ(names, std::set<std::string>());
}

TEST(ChartValues, ThatCannotBeAreRefusedWithTheirName) {
  for (const auto& [name, value] : std::vector<std::pair<std::string, json>>{
           {"image.repository", ""},
           {"image.tag", "a b"},
           {"image.digest", "sha256:0"},
           {"image.pullPolicy", "Sometimes"},
           {"imagePullSecrets", {"robot"}},
           {"operator.replicas", 0},
           {"operator.replicas", "two"},
           {"operator.resources.requests.cpu", "much"},
           {"operator.nodeSelector.gpu", true},
           {"operator.tolerations", {{{"effect", "NoExecution"}}}},
           {"operator.affinity", {{"gpuAffinity", json::object()}}},
           {"operator.topologySpreadConstraints", {{{"maxSkew", 1}}}},
           {"operator.priorityClassName", "Very High"},
           {"operator.podLabels", {{"app.kubernetes.io/name", "mine"}}},
           {"operator.podAnnotations", {{"checksum/settings", "mine"}}},
           {"operator.extraArgs", {"debug"}},
           {"settings.statusInterval", "soon"},
           {"settings.limits.apiThreads", 0},
           {"settings.traps.mine", {{"warning", ""}}},
           {"frameworks", {{"Torch", json::object()}}},
           {"frameworks.torch.neverPack", "locks"},
           {"registry.enabled", "yes please"},
           {"registry.storage.size", "large"},
           {"registry.storage.storageClass", "Fast Ones"},
           {"monitoring.interval", "often"},
           {"monitoring.labels", {"release"}},
           {"certManager.issuerRef", {{"kind", "ClusterIssuer"}}},
           {"networkPolicy.enabled", 1},
           {"crds.install", "keep"}}) {
    const ProcessResult refused = render(nested(name, value));
    EXPECT_NE(refused.exit_code, 0) << name << ": " << value;
    const std::string path = "/" + std::regex_replace(name, std::regex("\\."), "/");
    EXPECT_NE(refused.err.find("at '" + path), std::string::npos) << name << ": " << refused.err;
  }
}

// Every mapping of the schema whose keys are known lists them all, so that a slip of the pen is
// heard of.
void expect_closed(const json& schema, const std::string& path) {
  if (!schema.is_object()) return;
  if (schema.contains("properties")) {
    const json others = at(schema, "/additionalProperties");
    EXPECT_TRUE(others == false || others.is_object()) << path;
    for (const auto& [name, one] : schema.at("properties").items()) {
      expect_closed(one, path + "/" + name);
    }
  }
  expect_closed(at(schema, "/items"), path + "/[]");
  const json definitions = at(schema, "/definitions");
  for (const auto& [name, one] : definitions.items()) expect_closed(one, path + "#" + name);
}

TEST(ChartValues, NoKeyIsTakenThatIsNotKnown) {
  const json schema = json::parse(read_source_file("charts/compile-cache/values.schema.json"));
  expect_closed(schema, "");
  for (const char* name : {"replicas", "image.name", "operator.replica", "settings.frameworks",
                           "settings.registry.enabled", "frameworks.torch.envs",
                           "registry.storage.class", "crds.enabled"}) {
    const ProcessResult refused = render(nested(name, "1"));
    EXPECT_NE(refused.exit_code, 0) << name;
    const std::string key = std::string(name).substr(std::string(name).rfind('.') + 1);
    EXPECT_NE(refused.err.find("additional properties '" + key + "' not allowed"),
              std::string::npos)
        << name << ": " << refused.err;
  }
}

// A chart that has this one as a part hands it this key.
TEST(ChartValues, OfAChartAroundItAreLeftAlone) {
  EXPECT_EQ(rendered({{"global", {{"region", "eu"}}}}), rendered(json::object()));
}

}  // namespace
}  // namespace compilecache::testing
