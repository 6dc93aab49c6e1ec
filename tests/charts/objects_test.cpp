#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <regex>

#include "tests/charts/helm.hpp"
#include "tests/support/kubectl.hpp"
#include "tests/support/paths.hpp"

// The chart makes the objects that config/ makes, with every set of its components. Allowed
// differences: the Namespace, which `helm install --create-namespace` makes; names of ConfigMaps
// that end in a hash; and Helm's own additions (without_helms_own).

namespace compilecache::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Which components, as bits.
enum Component : unsigned {
  kRegistry = 1,
  kPrometheus = 2,
  kMetricsAccess = 4,
  kReplaceStuckPods = 8,
  kCertManager = 16,
  kAll = 32,
};

std::vector<std::string> folders_of(unsigned set) {
  std::vector<std::string> folders;
  if (set & kRegistry) folders.emplace_back("registry");
  if (set & kPrometheus) folders.emplace_back("prometheus-operator");
  if (set & kMetricsAccess) folders.emplace_back("metrics-access");
  if (set & kReplaceStuckPods) folders.emplace_back("replace-stuck-pods");
  if (set & kCertManager) folders.emplace_back("cert-manager");
  if ((set & kRegistry) && (set & kCertManager)) folders.emplace_back("registry/cert-manager");
  if ((set & kPrometheus) && (set & kMetricsAccess) && (set & kCertManager)) {
    folders.emplace_back("metrics-access/cert-manager");
  }
  return folders;
}

// Without the two resources, which take longer to parse than all else; one test is about them.
json values_of(unsigned set) {
  const auto enabled = [&](Component one) { return json{{"enabled", (set & one) != 0}}; };
  return {
      {"registry", enabled(kRegistry)},           {"monitoring", enabled(kPrometheus)},
      {"metricsAccess", enabled(kMetricsAccess)}, {"replaceStuckPods", enabled(kReplaceStuckPods)},
      {"certManager", enabled(kCertManager)},     {"crds", {{"enabled", false}}}};
}

std::string without_resources(const std::string& yaml) {
  std::string kept;
  for (size_t begin = 0; begin < yaml.size();) {
    const size_t end = std::min(yaml.find("\n---\n", begin), yaml.size());
    const std::string document = yaml.substr(begin, end - begin);
    if (document.find("\nkind: CustomResourceDefinition\n") == std::string::npos) {
      kept += document + "\n---\n";
    }
    begin = end + 5;
  }
  return kept;
}

// What `kubectl apply -k` would send, with ConfigMaps named as they are before kustomize adds the
// hash of their content.
Objects kustomized(unsigned set, bool with_resources = false) {
  const fs::path folder = fs::temp_directory_path() / ("chart-" + std::to_string(::getpid()));
  fs::create_directories(folder);
  const fs::path config = fs::relative(in_tree("config"), folder);
  json components = json::array();
  for (const std::string& name : folders_of(set))
    components.push_back(config / "components" / name);
  std::ofstream(folder / "kustomization.yaml")
      << json{{"resources", {config}}, {"components", components}};
  const auto built = kubectl({"kustomize", folder});
  fs::remove_all(folder);
  EXPECT_EQ(built.exit_code, 0) << built.err;
  const std::regex hashed("(compilecache-(settings|registry-config))-[a-z0-9]{10}\\b");
  const std::string yaml = with_resources ? built.out : without_resources(built.out);
  Objects objects = objects_of(std::regex_replace(yaml, hashed, "$1"));
  objects.erase(std::string("Namespace/") + kChartNamespace);
  return objects;
}

void expect_equal(const Objects& of_chart, const Objects& of_config) {
  for (const auto& [name, object] : of_config) {
    const auto found = of_chart.find(name);
    if (found == of_chart.end()) {
      ADD_FAILURE() << "the chart has no " << name;
      continue;
    }
    const json ours = without_helms_own(found->second);
    EXPECT_EQ(ours, object) << name
                            << " is different in the chart: " << json(changes(object, ours));
  }
  for (const auto& [name, object] : of_chart) {
    EXPECT_TRUE(of_config.contains(name)) << "config/ has no " << name;
  }
}

TEST(ChartObjects, AreThoseOfConfigWithEverySetOfComponents) {
  for (unsigned set = 0; set < kAll; ++set) {
    SCOPED_TRACE(values_of(set).dump());
    expect_equal(rendered(values_of(set)), kustomized(set));
  }
}

TEST(ChartObjects, WithoutNetworkPoliciesAreTheOthers) {
  json values = values_of(kAll - 1);
  values["networkPolicy"]["enabled"] = false;
  Objects expected = kustomized(kAll - 1);
  EXPECT_EQ(
      std::erase_if(expected, [](const auto& e) { return e.first.starts_with("NetworkPolicy/"); }),
      2);
  expect_equal(rendered(values), expected);
}

TEST(ChartObjects, HaveTheTwoResources) {
  expect_equal(rendered(json::object()), kustomized(0, true));
}

// Helm removes neither the CompileCaches, with the resources, nor the archives.
TEST(ChartObjects, StayWhereTheyHoldWhatUsersKeep) {
  std::set<std::string> kept;
  for (const auto& [name, object] : rendered({{"registry", {{"enabled", true}}}})) {
    if (at(object, "/metadata/annotations/helm.sh~1resource-policy") == "keep") kept.insert(name);
  }
  EXPECT_EQ(kept,
            (std::set<std::string>{"CustomResourceDefinition/compilecachearchives.compilecache.dev",
                                   "CustomResourceDefinition/compilecaches.compilecache.dev",
                                   "PersistentVolumeClaim/compilecache-registry"}));
}

TEST(ChartObjects, AreOfTheReleasesNamespace) {
  const auto dumped = [](const std::string& ns) {
    Objects objects = rendered(values_of(kAll - 1), ns);
    json all = json::object();
    for (auto& [name, object] : objects) all[name] = without_helms_own(object);
    // Comments may name the usual one.
    for (const char* comments : {"ConfigMap/compilecache-settings"}) all.erase(comments);
    return all.dump();
  };
  const std::string elsewhere = dumped("elsewhere");
  EXPECT_EQ(elsewhere.find(kChartNamespace), std::string::npos)
      << elsewhere.substr(elsewhere.find(kChartNamespace) - 200, 400);
  EXPECT_EQ(std::regex_replace(dumped(kChartNamespace), std::regex(kChartNamespace), "elsewhere"),
            elsewhere);
}

// What kustomize says by names with hashes.
TEST(ChartObjects, AnotherConfigurationRollsThePods) {
  const json base = {{"registry", {{"enabled", true}}}};
  json other = base;
  other["settings"]["statusInterval"] = "6s";
  const Objects before = rendered(base), after = rendered(other);
  const std::string pod = "/spec/template/metadata/annotations/checksum~1";
  EXPECT_NE(at(before.at("Deployment/compilecache-operator"), pod + "settings"),
            at(after.at("Deployment/compilecache-operator"), pod + "settings"));
  // Its configuration names the namespace.
  EXPECT_NE(at(before.at("Deployment/compilecache-registry"), pod + "config"),
            at(rendered(base, "elsewhere").at("Deployment/compilecache-registry"), pod + "config"));
}

}  // namespace
}  // namespace compilecache::testing
