#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <regex>

#include "tests/charts/helm.hpp"
#include "tests/support/kubectl.hpp"

// Names, labels and annotations that values give to all objects.

namespace compilecache::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Everything that the chart can make, but for the two resources.
const json kEverything = {
    {"registry", {{"enabled", true}}},      {"monitoring", {{"enabled", true}}},
    {"metricsAccess", {{"enabled", true}}}, {"replaceStuckPods", {{"enabled", true}}},
    {"certManager", {{"enabled", true}}},   {"dashboard", {{"enabled", true}}},
    {"crds", {{"enabled", false}}}};

json with(json values, const json& more) {
  values.merge_patch(more);
  return values;
}

// What programs, certificates and the API server look up by name.
const std::set<std::string> kFixed = {"Certificate/compilecache-authority",
                                      "Certificate/compilecache-registry",
                                      "Certificate/compilecache-serving",
                                      "ConfigMap/compilecache-registry-config",
                                      "Deployment/compilecache-registry",
                                      "Deployment/compilecache-registry-reader",
                                      "Issuer/compilecache-authority",
                                      "Issuer/compilecache-self-signed",
                                      "MutatingWebhookConfiguration/compilecache",
                                      "NetworkPolicy/compilecache-registry",
                                      "PersistentVolumeClaim/compilecache-registry",
                                      "Service/compilecache-agent-api",
                                      "Service/compilecache-load-api",
                                      "Service/compilecache-metrics",
                                      "Service/compilecache-registry",
                                      "Service/compilecache-webhook"};

TEST(ChartNames, AFullnameRenamesWhatNobodyLooksUp) {
  const Objects before = rendered(kEverything);
  const Objects after = rendered(with(kEverything, {{"fullnameOverride", "kernels"}}));
  std::set<std::string> expected, found;
  for (const auto& [name, object] : before) {
    expected.insert(kFixed.contains(name)
                        ? name
                        : std::regex_replace(name, std::regex("/compilecache"), "/kernels"));
  }
  for (const auto& [name, object] : after) found.insert(name);
  EXPECT_EQ(found, expected);
  EXPECT_TRUE(found.contains("Deployment/kernels-operator"));
}

// References lead to the objects under their other names.
TEST(ChartNames, ReferencesFollow) {
  const Objects objects = rendered(with(kEverything, {{"fullnameOverride", "kernels"}}));
  for (const auto& [name, object] : objects) {
    const json role = at(object, "/roleRef");
    if (role.is_object()) {
      EXPECT_TRUE(objects.contains(role.at("kind").get<std::string>() + "/" +
                                   role.at("name").get<std::string>()))
          << name << " names " << role;
      EXPECT_EQ(at(object, "/subjects/0/name"), "kernels-operator") << name;
    }
    if (name.starts_with("ValidatingAdmissionPolicyBinding/")) {
      const json policy = at(object, "/spec/policyName");
      EXPECT_TRUE(objects.contains("ValidatingAdmissionPolicy/" + policy.get<std::string>()));
    }
  }
  const json& deployment = objects.at("Deployment/kernels-operator");
  EXPECT_EQ(at(deployment, "/spec/template/spec/serviceAccountName"), "kernels-operator");
  EXPECT_EQ(at(deployment, "/spec/template/spec/volumes/0/configMap/name"), "kernels-settings");
  EXPECT_EQ(at(objects.at("ValidatingAdmissionPolicy/kernels-operator-jobs"),
               "/spec/matchConditions/0/expression"),
            "request.userInfo.username == "
            "'system:serviceaccount:compilecache-system:kernels-operator'");
}

TEST(ChartNames, ANameIsThatOfTheReleaseWithIt) {
  EXPECT_TRUE(rendered({{"nameOverride", "kernels"}}).contains("Deployment/try-kernels-operator"));
  EXPECT_TRUE(rendered({{"nameOverride", "try"}}).contains("Deployment/try-operator"));
  EXPECT_TRUE(rendered({{"nameOverride", "kernels"}, {"fullnameOverride", "mine"}})
                  .contains("Deployment/mine-operator"));
}

TEST(ChartNames, CommonLabelsAreOnEveryObjectAndPod) {
  const Objects before = rendered(kEverything);
  for (const auto& [name, object] :
       rendered(with(kEverything, {{"commonLabels", {{"team", "ml"}}}}))) {
    std::map<std::string, json> expected{{"/metadata/labels/team", "ml"}};
    if (name.starts_with("Deployment/")) expected["/spec/template/metadata/labels/team"] = "ml";
    EXPECT_EQ(changes(before.at(name), object), expected) << name;
  }
}

TEST(ChartNames, CommonAnnotationsAreOnEveryObject) {
  for (const auto& [name, object] :
       rendered(with(kEverything, {{"commonAnnotations", {{"owner", "ml"}}}}))) {
    EXPECT_EQ(at(object, "/metadata/annotations/owner"), "ml") << name;
  }
  // Those of the chart stay, whatever these say.
  const Objects objects =
      rendered(with(kEverything, {{"commonAnnotations", {{"helm.sh/resource-policy", "none"}}}}));
  EXPECT_EQ(at(objects.at("PersistentVolumeClaim/compilecache-registry"),
               "/metadata/annotations/helm.sh~1resource-policy"),
            "keep");
}

TEST(ChartNames, AServiceAccountCanBeNamedAndAnnotated) {
  const Objects objects = rendered({{"serviceAccount",
                                     {{"name", "mine"},
                                      {"annotations", {{"cloud/role", "cache"}}},
                                      {"labels", {{"team", "ml"}}}}}});
  EXPECT_FALSE(objects.contains("ServiceAccount/compilecache-operator"));
  const json& account = objects.at("ServiceAccount/mine");
  EXPECT_EQ(at(account, "/metadata/annotations"), json({{"cloud/role", "cache"}}));
  EXPECT_EQ(at(account, "/metadata/labels/team"), "ml");
  EXPECT_EQ(
      at(objects.at("Deployment/compilecache-operator"), "/spec/template/spec/serviceAccountName"),
      "mine");
  EXPECT_EQ(at(objects.at("ClusterRoleBinding/compilecache-operator"), "/subjects/0/name"), "mine");
  EXPECT_EQ(at(objects.at("ValidatingAdmissionPolicy/compilecache-operator-job-label"),
               "/spec/matchConditions/0/expression"),
            "request.userInfo.username == 'system:serviceaccount:compilecache-system:mine'");
}

TEST(ChartNames, AServiceAccountCanBeSomebodyElses) {
  const Objects objects = rendered({{"serviceAccount", {{"create", false}, {"name", "theirs"}}}});
  for (const auto& [name, object] : objects) {
    EXPECT_FALSE(name.starts_with("ServiceAccount/")) << name;
  }
  EXPECT_EQ(at(objects.at("RoleBinding/compilecache-operator"), "/subjects/0/name"), "theirs");
}

// Its own keys of `global` count there too, and others are not this chart's concern.
TEST(ChartNames, AChartAroundItSharesItsGlobalValues) {
  const fs::path folder = fs::temp_directory_path() / ("umbrella-" + std::to_string(::getpid()));
  fs::create_directories(folder / "charts");
  fs::copy(chart(), folder / "charts/compile-cache", fs::copy_options::recursive);
  std::ofstream(folder / "Chart.yaml")
      << R"({"apiVersion": "v2", "name": "umbrella", "version": "1.0.0",
      "dependencies": [{"name": "compile-cache", "version": ">=0"}]})";
  const json values = {
      {"global", {{"region", "eu"}, {"imageRegistry", "mirror.example.com"}}},
      {"compile-cache", {{"crds", {{"enabled", false}}}, {"operator", {{"replicas", 3}}}}}};
  const ProcessResult result =
      helm({"template", "try", folder, "-n", kChartNamespace, "--values", "-"}, values.dump());
  fs::remove_all(folder);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json deployment = objects_of(result.out).at("Deployment/compilecache-operator");
  EXPECT_EQ(at(deployment, "/spec/replicas"), 3);
  EXPECT_EQ(at(deployment, "/spec/template/spec/containers/0/image")
                .get<std::string>()
                .find("mirror.example.com/"),
            0);
}

}  // namespace
}  // namespace compilecache::testing
