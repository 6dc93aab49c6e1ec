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
constexpr char kReaderPath[] = "/Deployment~1compilecache-registry-reader";
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

// The image that the chart names by default.
const std::string& repository() {
  static const std::string name = [] {
    const std::string line = read_source_file("image/repository");
    return line.substr(0, line.find('\n'));
  }();
  return name;
}

json as_json(const Objects& objects) {
  json all = json::object();
  for (const auto& [name, object] : objects) all[name] = object;
  return all;
}

const json kWithRegistry = nested("registry.enabled", true);
const json kWithMonitoring = nested("monitoring.enabled", true);

// The value at `path` with one element more; of the chart as it is with `beside`.
json appended(const json& beside, const std::string& path, const json& element) {
  json set = beside;
  set["crds"]["enabled"] = false;
  json list = at(as_json(rendered(set)), path);
  list.push_back(element);
  return list;
}

// The additions to the containers at these places, and to their pod.
void add_extras(std::vector<Value>& all, const std::string& of, const std::string& pod,
                const std::vector<std::string>& containers, const json& beside) {
  const json variable = {{"name", "HTTPS_PROXY"}, {"value", "http://proxy:3128"}};
  const json volume = {{"name", "more"}, {"configMap", {{"name", "more"}}}};
  const json mount = {{"name", "more"}, {"mountPath", "/more"}, {"readOnly", true}};
  Changes env, mounts, contexts;
  for (const std::string& container : containers) {
    const std::string path = pod + container;
    env[path + "/env"] = appended(beside, path + "/env", variable);
    mounts[path + "/volumeMounts"] = appended(beside, path + "/volumeMounts", mount);
    contexts[path + "/securityContext/runAsUser"] = 1234;
  }
  all.push_back({of + ".extraEnv", {variable}, env, beside});
  all.push_back({of + ".extraVolumeMounts", {mount}, mounts, beside});
  all.push_back({of + ".extraVolumes",
                 {volume},
                 {{pod + "/volumes", appended(beside, pod + "/volumes", volume)}},
                 beside});
  all.push_back({of + ".containerSecurityContext.runAsUser", 1234, contexts, beside});
}

// Numbers and names of the pods' specs that are handed through.
void add_pod(std::vector<Value>& all, const std::string& of, const std::string& deployment,
             const json& beside) {
  const std::string pod = deployment + kPod;
  const std::string container = pod + "/containers/0";
  const json resolver = {{"options", {{{"name", "ndots"}, {"value", "1"}}}}};
  const json aliases = {{{"ip", "10.0.0.1"}, {"hostnames", {"api.internal"}}}};
  all.push_back({of + ".securityContext.runAsNonRoot",
                 false,
                 {{pod + "/securityContext/runAsNonRoot", false}},
                 beside});
  for (const std::string probe : {"readinessProbe", "livenessProbe"}) {
    all.push_back({of + "." + probe + ".periodSeconds",
                   7,
                   {{container + "/" + probe + "/periodSeconds", 7}},
                   beside});
  }
  all.push_back({of + ".annotations",
                 {{"reloader", "on"}},
                 {{deployment + "/metadata/annotations", {{"reloader", "on"}}}},
                 beside});
  all.push_back({of + ".dnsPolicy", "Default", {{pod + "/dnsPolicy", "Default"}}, beside});
  all.push_back({of + ".dnsConfig", resolver, {{pod + "/dnsConfig", resolver}}, beside});
  all.push_back({of + ".hostAliases", aliases, {{pod + "/hostAliases", aliases}}, beside});
}

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
  // The registry's pods have one already.
  all.push_back({of + ".affinity", affinity,
                 of == "operator"
                     ? Changes{{pod + "/affinity", affinity}}
                     : Changes{{pod + "/affinity/nodeAffinity", affinity.at("nodeAffinity")}},
                 beside});
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
  all.push_back({"registry.reader.enabled", false, {{kReaderPath, json()}}, kWithRegistry});
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
  const std::string& usual = repository();
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

// How pods are replaced, and what the operator listens on.
void add_operation(std::vector<Value>& all) {
  const std::string deployment = kOperatorPath;
  const std::string pod = deployment + kPod;
  const std::string container = pod + "/containers/0";
  const std::string budget = "/PodDisruptionBudget~1compilecache-operator";
  const auto listening = [&](const std::string& name, int place, int port) {
    return Changes{{container + "/ports/" + std::to_string(place) + "/containerPort", port},
                   {container + "/args",
                    {"--settings=/etc/compilecache/settings.yaml",
                     "--" + name + "-port=" + std::to_string(port)}}};
  };
  all.push_back({"operator.strategy.type",
                 "Recreate",
                 {{deployment + "/spec/strategy/type", "Recreate"},
                  {deployment + "/spec/strategy/rollingUpdate", json()}}});
  all.push_back({"operator.strategy.rollingUpdate.maxUnavailable",
                 1,
                 {{deployment + "/spec/strategy/rollingUpdate/maxUnavailable", 1}}});
  all.push_back({"operator.strategy.rollingUpdate.maxSurge",
                 "50%",
                 {{deployment + "/spec/strategy/rollingUpdate/maxSurge", "50%"}}});
  all.push_back({"operator.podDisruptionBudget.enabled", false, {{budget, json()}}});
  all.push_back({"operator.podDisruptionBudget.minAvailable",
                 "50%",
                 {{budget + "/spec/minAvailable", "50%"}}});
  all.push_back({"operator.podDisruptionBudget.maxUnavailable",
                 0,
                 {{budget + "/spec/maxUnavailable", 0}, {budget + "/spec/minAvailable", json()}}});
  all.push_back({"operator.terminationGracePeriodSeconds",
                 60,
                 {{pod + "/terminationGracePeriodSeconds", 60}}});
  Changes agents = listening("agent", 1, 19444);
  agents["/Service~1compilecache-agent-api/spec/ports/0/targetPort"] = 19444;
  all.push_back({"webhook.port", 19443, listening("webhook", 0, 19443)});
  all.push_back({"operator.agentPort", 19444, agents});
  all.push_back({"operator.plainPort", 18080, listening("plain", 2, 18080)});
  all.push_back({"webhook.hostNetwork",
                 true,
                 {{pod + "/hostNetwork", true}, {pod + "/dnsPolicy", "ClusterFirstWithHostNet"}}});
}

void add_webhook(std::vector<Value>& all) {
  const std::string configuration = "/MutatingWebhookConfiguration~1compilecache";
  const std::string webhook = configuration + "/webhooks/0";
  const json labels = {{"team", "ml"}};
  const json expression = {{"key", "team"}, {"operator", "Exists"}};
  const std::string expressions = webhook + "/namespaceSelector/matchExpressions";
  all.push_back({"webhook.timeoutSeconds", 5, {{webhook + "/timeoutSeconds", 5}}});
  all.push_back({"webhook.namespaceSelector",
                 {{"matchLabels", labels}, {"matchExpressions", {expression}}},
                 {{webhook + "/namespaceSelector/matchLabels", labels},
                  {expressions, appended(json::object(), expressions, expression)}}});
  all.push_back({"webhook.objectSelector",
                 {{"matchLabels", labels}},
                 {{webhook + "/objectSelector", {{"matchLabels", labels}}}}});
  all.push_back({"webhook.annotations",
                 {{"owner", "ml"}},
                 {{configuration + "/metadata/annotations", {{"owner", "ml"}}}}});
  json with_cert_manager = nested("certManager.enabled", true);
  all.push_back({"webhook.annotations",
                 {{"owner", "ml"}},
                 {{configuration + "/metadata/annotations/owner", "ml"}},
                 with_cert_manager});
}

// Each alert's section below another address.
Changes with_runbooks(const std::string& address) {
  Changes changed;
  const json rules = testing::read_yaml_file("config/monitoring/rules.yaml")["groups"][0]["rules"];
  for (size_t at = 0; at < rules.size(); ++at) {
    const std::string usual = rules[at]["annotations"]["runbook_url"];
    changed[std::string(kRulesPath) + "/spec/groups/0/rules/" + std::to_string(at) +
            "/annotations/runbook_url"] = address + usual.substr(usual.find('#'));
  }
  return changed;
}

void add_monitoring(std::vector<Value>& all) {
  const std::string endpoint = std::string(kMonitorPath) + "/spec/endpoints/0";
  const json relabelings = {{{"action", "labeldrop"}, {"regex", "pod"}}};
  const json folder = {{"grafana_folder", "ML"}};
  all.push_back(
      {"monitoring.scrapeTimeout", "9s", {{endpoint + "/scrapeTimeout", "9s"}}, kWithMonitoring});
  all.push_back({"monitoring.relabelings",
                 relabelings,
                 {{endpoint + "/relabelings", relabelings}},
                 kWithMonitoring});
  all.push_back({"monitoring.metricRelabelings",
                 relabelings,
                 {{endpoint + "/metricRelabelings", relabelings}},
                 kWithMonitoring});
  all.push_back({"monitoring.annotations",
                 folder,
                 {{std::string(kMonitorPath) + "/metadata/annotations", folder},
                  {std::string(kRulesPath) + "/metadata/annotations", folder}},
                 kWithMonitoring});
  all.push_back({"monitoring.rules.enabled", false, {{kRulesPath, json()}}, kWithMonitoring});
  const std::string runbooks = "https://docs.example.com/alerts/";
  all.push_back({"monitoring.rules.runbooks", runbooks, with_runbooks(runbooks), kWithMonitoring});
  const json with_dashboard = nested("dashboard.enabled", true);
  const std::string dashboard = "/ConfigMap~1compilecache-dashboard";
  all.push_back({"dashboard.namespace",
                 "grafana",
                 {{dashboard + "/metadata/namespace", "grafana"}},
                 with_dashboard});
  all.push_back({"dashboard.labels.grafana_dashboard",
                 "yes",
                 {{dashboard + "/metadata/labels/grafana_dashboard", "yes"}},
                 with_dashboard});
  all.push_back({"dashboard.annotations",
                 folder,
                 {{dashboard + "/metadata/annotations", folder}},
                 with_dashboard});
}

// All images; a host with a port is one, a path without is not.
void add_globals(std::vector<Value>& all) {
  const std::string version =
      read_yaml_file("charts/compile-cache/Chart.yaml").at("appVersion").get<std::string>();
  const std::string mirror = "mirror.example.com:5000/hub";
  const std::string image =
      mirror + "/" + repository().substr(repository().find('/') + 1) + ":" + version;
  const std::string registry = std::string(kRegistryPath) + kPod;
  all.push_back({"global.imageRegistry",
                 mirror,
                 {{std::string(kOperatorPath) + kPod + "/containers/0/image", image},
                  {kPolicyImage, "'" + image + "'"},
                  {registry + "/containers/0/image", mirror + "/library/registry:3"},
                  {registry + "/initContainers/0/image", mirror + "/library/registry:3"}},
                 kWithRegistry});
  const json secrets = {{{"name", "robot"}}};
  all.push_back({"global.imagePullSecrets",
                 secrets,
                 {{std::string(kOperatorPath) + kPod + "/imagePullSecrets", secrets},
                  {registry + "/imagePullSecrets", secrets}},
                 kWithRegistry});
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

// What changes the registry's pod changes the reader's, which has no init container.
void add_reader(Value& value) {
  Changes changed;
  const std::string registry = std::string(kRegistryPath) + "/";
  for (const auto& [path, what] : value.changed) {
    if (!path.starts_with(registry) || path.find("/initContainers/") != std::string::npos) continue;
    const std::string to = kReaderPath + path.substr(registry.size() - 1);
    const bool mounts = path.ends_with("/volumeMounts");
    changed[to] = mounts ? appended(value.beside, to, what.back()) : what;
  }
  value.changed.merge(changed);
}

std::vector<Value> values() {
  std::vector<Value> all;
  add_operator(all);
  add_operation(all);
  add_webhook(all);
  add_placement(all, "operator", kOperatorPath, json::object());
  add_pod(all, "operator", kOperatorPath, json::object());
  add_extras(all, "operator", std::string(kOperatorPath) + kPod, {"/containers/0"}, json::object());
  add_registry(all);
  add_placement(all, "registry", kRegistryPath, kWithRegistry);
  add_pod(all, "registry", kRegistryPath, kWithRegistry);
  add_extras(all, "registry", std::string(kRegistryPath) + kPod,
             {"/containers/0", "/initContainers/0"}, kWithRegistry);
  add_monitoring(all);
  add_globals(all);
  add_others(all);
  for (Value& value : all) add_reader(value);
  return all;
}

TEST(ChartValues, EachChangesWhatItSaysAndNothingElse) {
  std::map<std::string, json> before;  // by what is set beside
  for (const Value& value : values()) {
    json set = value.beside;
    set["crds"]["enabled"] = false;  // which takes longest to parse
    json& usual = before[set.dump()];
    if (usual.is_null()) usual = as_json(rendered(set));
    set.merge_patch(nested(value.name, "placeholder"));
    set[json::json_pointer("/" + std::regex_replace(value.name, std::regex("\\."), "/"))] =
        value.value;
    EXPECT_EQ(json(changes(usual, as_json(rendered(set)))), json(value.changed)) << value.name;
  }
}

void collect_names(const json& values, const std::string& prefix, std::set<std::string>& names) {
  for (const auto& [key, value] : values.items()) {
    if (value.is_object() && !value.empty()) {
      collect_names(value, prefix + key + ".", names);
    } else {
      names.insert(prefix + key);
    }
  }
}

// Values that are a map or a list of objects: tried in names_test.cpp, extra_objects_test.cpp and
// settings_test.cpp. Whether a component exists: objects_test.cpp.
const std::set<std::string> kTriedElsewhere = {"caches",
                                               "certManager.enabled",
                                               "commonAnnotations",
                                               "commonLabels",
                                               "crds.enabled",
                                               "crds.keep",
                                               "dashboard.enabled",
                                               "extraObjects",
                                               "frameworks",
                                               "fullnameOverride",
                                               "metricsAccess.enabled",
                                               "monitoring.enabled",
                                               "monitoring.kind",
                                               "nameOverride",
                                               "networkPolicy.enabled",
                                               "rbac.aggregateClusterRoles",
                                               "registry.enabled",
                                               "replaceStuckPods.enabled",
                                               "serviceAccount.annotations",
                                               "serviceAccount.create",
                                               "serviceAccount.labels",
                                               "serviceAccount.name",
                                               "settings"};

TEST(ChartValues, EveryValueIsTried) {
  std::set<std::string> names;
  collect_names(read_yaml_file("charts/compile-cache/values.yaml"), "", names);
  for (const std::string& name : kTriedElsewhere) EXPECT_EQ(names.erase(name), 1) << name;
  for (const Value& value : values()) {
    // A value that stands for a map is tried by one of its keys, a key by its map.
    std::erase_if(names, [&](const std::string& name) {
      return name == value.name || name.starts_with(value.name + ".") ||
             (value.name.starts_with(name + "."));
    });
  }
  // Values that the chart passes to the API server unchanged, by their map.
  std::erase_if(names, [](const std::string& name) {
    static const std::regex handed_through(
        R"((operator|registry)\.(securityContext|containerSecurityContext|readinessProbe|livenessProbe)\..*)");
    return std::regex_match(name, handed_through);
  });
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
           {"crds.keep", "yes"},
           {"fullnameOverride", "Compile_Cache"},
           {"commonLabels", {{"app.kubernetes.io/name", "mine"}}},
           {"global.imagePullSecrets", {"robot"}},
           {"operator.strategy.type", "OnDelete"},
           {"operator.podDisruptionBudget.minAvailable", "half"},
           {"operator.extraEnv", {{{"name", "POD_IP"}, {"value", "10.0.0.1"}}}},
           {"operator.extraVolumes", {{{"name", "settings"}, {"emptyDir", json::object()}}}},
           {"operator.extraVolumeMounts", {{{"name", "more"}}}},
           {"operator.securityContext.runAsUser", "root"},
           {"operator.terminationGracePeriodSeconds", 5},
           {"operator.agentPort", 443},
           {"registry.extraEnv", {{{"name", "GOMEMLIMIT"}, {"value", "1GiB"}}}},
           {"webhook.timeoutSeconds", 30},
           {"webhook.objectSelector", {{"labels", {{"a", "b"}}}}},
           {"monitoring.kind", "Probe"},
           {"caches", {{{"name", "llama"}, {"spec", json::object()}}}},
           {"extraObjects", {1}}}) {
    const ProcessResult refused = render(nested(name, value));
    EXPECT_NE(refused.exit_code, 0) << name << ": " << value;
    const std::string path = "/" + std::regex_replace(name, std::regex("\\."), "/");
    EXPECT_NE(refused.err.find("at '" + path), std::string::npos) << name << ": " << refused.err;
  }
}

// Every mapping of the schema whose keys are known lists them all, so that a typo is
// reported.
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
  for (const char* name :
       {"replicas", "image.name", "operator.replica", "settings.frameworks",
        "settings.registry.enabled", "frameworks.torch.envs", "registry.storage.class",
        "crds.install", "webhook.failurePolicy", "operator.readinessProbe.httpGet"}) {
    const ProcessResult refused = render(nested(name, "1"));
    EXPECT_NE(refused.exit_code, 0) << name;
    const std::string key = std::string(name).substr(std::string(name).rfind('.') + 1);
    EXPECT_NE(refused.err.find("additional properties '" + key + "' not allowed"),
              std::string::npos)
        << name << ": " << refused.err;
  }
}

// `null` removes a default: then nothing of it is rendered, or the schema names the missing value.
// No object gets half a value.
TEST(ChartValues, NullIsNoneOrRefused) {
  std::set<std::string> names;
  collect_names(read_yaml_file("charts/compile-cache/values.yaml"), "", names);
  int accepted = 0;
  for (const std::string& name : names) {
    json set = kWithRegistry;
    set["monitoring"]["enabled"] = true;
    set["crds"]["enabled"] = false;
    set.merge_patch(nested(name, "placeholder"));
    set[json::json_pointer("/" + std::regex_replace(name, std::regex("\\."), "/"))] = json();
    const ProcessResult result = render(set);
    if (result.exit_code != 0) {
      EXPECT_NE(result.err.find("missing property"), std::string::npos) << name << result.err;
      continue;
    }
    ++accepted;
    EXPECT_EQ(result.out.find("<nil>"), std::string::npos) << name;
  }
  EXPECT_GT(accepted, 50);
}

// Rules that no schema can express.
TEST(ChartValues, ThatContradictEachOtherAreRefused) {
  json pod_monitor = nested("monitoring", {{"enabled", true}, {"kind", "PodMonitor"}});
  pod_monitor["metricsAccess"]["enabled"] = true;
  for (const auto& [values, words] : std::vector<std::pair<json, std::string>>{
           {nested("serviceAccount.create", false), "serviceAccount.name: name the ServiceAccount"},
           {nested("webhook.port", 9444), "must differ"},
           {nested("global.region", "eu"), "global.region: unknown value"},
           {pod_monitor, "a PodMonitor cannot present the token"}}) {
    const ProcessResult refused = render(values);
    EXPECT_NE(refused.exit_code, 0) << values;
    EXPECT_NE(refused.err.find(words), std::string::npos) << values << ": " << refused.err;
  }
}

}  // namespace
}  // namespace compilecache::testing
