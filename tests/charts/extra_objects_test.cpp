#include <gtest/gtest.h>

#include "tests/charts/helm.hpp"
#include "tests/support/kubectl.hpp"
#include "tests/unit/config/yaml_json.hpp"

// Objects that the chart makes only where a value asks for them, and that config/ does not have.

namespace compilecache::testing {
namespace {

using nlohmann::json;

constexpr char kPolicy[] = "/metadata/annotations/helm.sh~1resource-policy";

std::set<std::string> names_of(const Objects& objects) {
  std::set<std::string> names;
  for (const auto& [name, object] : objects) names.insert(name);
  return names;
}

// Those that a value adds, when it is set over the defaults.
Objects added_by(const json& values) {
  json set = values;
  set["crds"]["enabled"] = false;
  const auto before = names_of(rendered({{"crds", {{"enabled", false}}}}));
  Objects after = rendered(set);
  std::erase_if(after, [&](const auto& entry) { return before.contains(entry.first); });
  return after;
}

TEST(ChartObjects, OneCompileCacheForEachTeam) {
  const json spec = {{"storage", json::object()}, {"frameworks", {"vllm"}}};
  const Objects added =
      added_by({{"caches",
                 {{{"name", "llama"}, {"namespace", "search"}, {"spec", spec}},
                  {{"name", "qwen"},
                   {"namespace", "chat"},
                   {"labels", {{"team", "chat"}}},
                   {"annotations", {{"owner", "chat"}, {"helm.sh/resource-policy", "delete"}}},
                   {"spec", {{"storage", {{"claimName", "caches"}}}}}}}}});
  ASSERT_EQ(names_of(added), (std::set<std::string>{"CompileCache/llama", "CompileCache/qwen"}));
  const json &llama = added.at("CompileCache/llama"), &qwen = added.at("CompileCache/qwen");
  EXPECT_EQ(llama.at("apiVersion"), "compilecache.dev/v1alpha1");
  EXPECT_EQ(at(llama, "/metadata/namespace"), "search");
  EXPECT_EQ(llama.at("spec"), spec);
  EXPECT_EQ(at(qwen, "/metadata/labels/team"), "chat");
  EXPECT_EQ(at(qwen, "/metadata/annotations/owner"), "chat");
  // With a CompileCache its archives go; a line that is removed from the values must not do that.
  EXPECT_EQ(at(llama, kPolicy), "keep");
  EXPECT_EQ(at(qwen, kPolicy), "keep");
}

TEST(ChartObjects, ExtraOnesAsMapsAndAsTemplates) {
  const Objects added = added_by(
      {{"extraObjects",
        {{{"apiVersion", "v1"},
          {"kind", "ConfigMap"},
          {"metadata", {{"name", "map"}, {"namespace", "{{ .Release.Namespace }}"}}}},
         "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: text-{{ .Release.Name }}\n"}}});
  EXPECT_EQ(names_of(added), (std::set<std::string>{"ConfigMap/map", "ConfigMap/text-try"}));
  EXPECT_EQ(at(added.at("ConfigMap/map"), "/metadata/namespace"), kChartNamespace);
}

TEST(ChartObjects, TheDashboardForGrafanasSidecar) {
  const Objects added = added_by({{"dashboard", {{"enabled", true}}}});
  ASSERT_EQ(names_of(added), (std::set<std::string>{"ConfigMap/compilecache-dashboard"}));
  const json& map = added.begin()->second;
  EXPECT_EQ(at(map, "/metadata/labels/grafana_dashboard"), "1");
  EXPECT_EQ(json::parse(at(map, "/data/compilecache.json").get<std::string>()),
            json::parse(read_source_file("config/monitoring/dashboard.json")));
}

TEST(ChartObjects, APodMonitorInsteadOfAServiceMonitor) {
  const Objects added = added_by({{"monitoring", {{"enabled", true}, {"kind", "PodMonitor"}}}});
  EXPECT_EQ(names_of(added), (std::set<std::string>{"PodMonitor/compilecache-operator",
                                                    "PrometheusRule/compilecache"}));
  const json endpoint =
      at(added.at("PodMonitor/compilecache-operator"), "/spec/podMetricsEndpoints/0");
  EXPECT_EQ(endpoint.at("port"), "plain");
  EXPECT_EQ(endpoint.at("honorLabels"), true);
}

TEST(ChartObjects, ResourcesThatUsersInstallOrLose) {
  const std::string crd = "CustomResourceDefinition/compilecaches.compilecache.dev";
  EXPECT_FALSE(rendered({{"crds", {{"enabled", false}}}}).contains(crd));
  EXPECT_TRUE(at(rendered({{"crds", {{"keep", false}}}}).at(crd), kPolicy).is_null());
}

TEST(ChartObjects, RolesOfUsersOnlyWhereTheyAreWanted) {
  const Objects objects = rendered({{"rbac", {{"aggregateClusterRoles", false}}}});
  EXPECT_FALSE(objects.contains("ClusterRole/compilecache-view"));
  EXPECT_FALSE(objects.contains("ClusterRole/compilecache-edit"));
  EXPECT_TRUE(objects.contains("ClusterRole/compilecache-operator"));
}

}  // namespace
}  // namespace compilecache::testing
