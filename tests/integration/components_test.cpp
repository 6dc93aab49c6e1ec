#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/kubectl.hpp"
#include "tests/support/paths.hpp"
#include "tests/unit/config/yaml_json.hpp"

// The kustomize components' changes to config/.

namespace compilecache {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::at;
using testing::kubectl;

// config/ with components.
class Components : public ::testing::Test {
 protected:
  explicit Components(std::vector<std::string> components) : components_(std::move(components)) {}
  void SetUp() override {
    fs::create_directories(folder_);
    const fs::path config = fs::relative(testing::in_tree("config"), folder_);
    json components = json::array();
    for (const std::string& name : components_) components.push_back(config / "components" / name);
    std::ofstream(folder_ / "kustomization.yaml")
        << json{{"resources", {config}}, {"components", components}};
    const auto built = kubectl({"kustomize", folder_});
    ASSERT_EQ(built.exit_code, 0) << built.err;
    objects_ = testing::read_yaml(built.out);
  }
  void TearDown() override { fs::remove_all(folder_); }

  // The only one of that kind and name; null when there is none.
  [[nodiscard]] json object(const std::string& kind, const std::string& name) const {
    for (const json& object : objects_) {
      if (at(object, "/kind") == kind && at(object, "/metadata/name") == name) return object;
    }
    return {};
  }

  const std::vector<std::string> components_;
  fs::path folder_ = fs::temp_directory_path() / ("components-" + std::to_string(::getpid()));
  std::vector<json> objects_;
};

class CertManager : public Components {
 protected:
  CertManager() : Components({"cert-manager"}) {}
};

class MetricsAccess : public Components {
 protected:
  MetricsAccess() : Components({"prometheus-operator", "metrics-access"}) {}
};

class Registry : public Components {
 protected:
  Registry() : Components({"registry"}) {}
};

// In a namespace with the labels of the operator's.
TEST_F(Registry, TheApiServerAcceptsItsPodAmongRestrictedOnes) {
  json ns = object("Namespace", "compilecache-system");
  const std::string name = "registry-" + std::to_string(::getpid());
  ns["metadata"]["name"] = name;
  json account = {{"apiVersion", "v1"},
                  {"kind", "ServiceAccount"},
                  {"metadata", {{"name", "default"}, {"namespace", name}}}};
  for (const json& made : {ns, account}) {
    const auto applied = kubectl({"apply", "-f", "-"}, made.dump());
    ASSERT_EQ(applied.exit_code, 0) << applied.err;
  }
  json pod = at(object("Deployment", "compilecache-registry"), "/spec/template");
  pod["apiVersion"] = "v1";
  pod["kind"] = "Pod";
  pod["metadata"]["name"] = "registry";
  pod["metadata"]["namespace"] = name;
  const auto tried =
      kubectl({"apply", "--dry-run=server", "--validate=strict", "-f", "-"}, pod.dump());
  EXPECT_EQ(tried.exit_code, 0) << tried.err;
  kubectl({"delete", "namespace", name, "--wait=false"});
}

TEST_F(Registry, TheApiServerAcceptsAllOfIt) {
  const auto created = kubectl({"create", "namespace", "compilecache-system"});
  json list = {{"apiVersion", "v1"}, {"kind", "List"}, {"items", objects_}};
  const auto tried =
      kubectl({"apply", "--dry-run=server", "--validate=strict", "-f", "-"}, list.dump());
  EXPECT_EQ(tried.exit_code, 0) << tried.err << created.err;
}

TEST_F(MetricsAccess, WhatIsScrapedIsThePortThatAsksWhoItIs) {
  const json pod = at(object("Deployment", "compilecache-operator"), "/spec/template/spec");
  const json arguments = at(pod, "/containers/0/args");
  EXPECT_NE(std::find(arguments.begin(), arguments.end(), "--authorize-metrics"), arguments.end());
  const json port = at(object("Service", "compilecache-metrics"), "/spec/ports/0");
  EXPECT_EQ(at(port, "/targetPort"), "agents");
  const json endpoint = at(object("ServiceMonitor", "compilecache-operator"), "/spec/endpoints/0");
  EXPECT_EQ(at(endpoint, "/port"), at(port, "/name"));
  EXPECT_EQ(at(endpoint, "/scheme"), "https");
  // A name of the certificate that this port shows.
  EXPECT_EQ(at(endpoint, "/tlsConfig/serverName"),
            "compilecache-agent-api.compilecache-system.svc");
  EXPECT_FALSE(object("ClusterRole", "compilecache-metrics-reader").is_null());
}

TEST_F(CertManager, TheOperatorServesWhatTheCertificateMakes) {
  const json serving = object("Certificate", "compilecache-serving");
  const json pod = at(object("Deployment", "compilecache-operator"), "/spec/template/spec");
  json volume, mount;
  for (const json& one : at(pod, "/volumes")) {
    if (one.at("name") == "certificates") volume = one;
  }
  for (const json& one : at(pod, "/containers/0/volumeMounts")) {
    if (one.at("name") == "certificates") mount = one;
  }
  EXPECT_EQ(at(volume, "/secret/secretName"), at(serving, "/spec/secretName"));
  EXPECT_EQ(at(mount, "/readOnly"), true);
  const json arguments = at(pod, "/containers/0/args");
  const std::string folder = at(mount, "/mountPath").get<std::string>();
  EXPECT_NE(std::find(arguments.begin(), arguments.end(), "--certificates=" + folder),
            arguments.end())
      << arguments;
}

TEST_F(CertManager, TheCertificateIsForBothServicesAndTheWebhookTrustsIt) {
  const json webhook = object("MutatingWebhookConfiguration", "compilecache");
  const json service = at(webhook, "/webhooks/0/clientConfig/service");
  const json certificate = object("Certificate", "compilecache-serving");
  const std::string ns = at(service, "/namespace").get<std::string>();
  const json agents = object("Service", "compilecache-agent-api");
  EXPECT_EQ(at(certificate, "/spec/dnsNames"),
            (json{at(service, "/name").get<std::string>() + "." + ns + ".svc",
                  at(agents, "/metadata/name").get<std::string>() + "." + ns + ".svc"}));
  EXPECT_EQ(at(webhook, "/metadata/annotations/cert-manager.io~1inject-ca-from"),
            ns + "/compilecache-serving");
  const json issuer = at(certificate, "/spec/issuerRef/name");
  EXPECT_EQ(at(object("Issuer", issuer), "/spec/ca/secretName"),
            at(object("Certificate", "compilecache-authority"), "/spec/secretName"));
}

TEST_F(CertManager, OfSecretsTheOperatorMayReadThatOfItsPathAlone) {
  int roles = 0, reads = 0;
  for (const json& object : objects_) {
    const json rules = at(object, "/rules");
    if (!rules.is_array()) continue;
    ++roles;
    for (const json& rule : rules) {
      const json resources = at(rule, "/resources");
      if (resources.dump().find("secrets") == std::string::npos) continue;
      EXPECT_EQ(object.at("kind"), "Role") << object;
      if (at(rule, "/verbs") == json::array({"create"})) continue;
      ++reads;
      EXPECT_EQ(at(rule, "/verbs"), json::array({"get"})) << object;
      EXPECT_EQ(at(rule, "/resourceNames"), json::array({"compilecache-review-path"})) << object;
    }
  }
  EXPECT_GE(roles, 2);
  EXPECT_EQ(reads, 1);
  for (const json& binding : objects_) {
    const json role = at(binding, "/roleRef");
    if (role.is_null()) continue;
    EXPECT_FALSE(object(role.at("kind"), role.at("name")).is_null()) << binding;
  }
}

TEST_F(CertManager, TheApiServerAcceptsAllThatIsNotCertManagers) {
  json list = {{"apiVersion", "v1"}, {"kind", "List"}, {"items", json::array()}};
  for (const json& object : objects_) {
    const std::string version = object.at("apiVersion");
    if (!version.starts_with("cert-manager.io/")) list["items"].push_back(object);
  }
  const auto created = kubectl({"create", "namespace", "compilecache-system"});
  const auto tried =
      kubectl({"apply", "--dry-run=server", "--validate=strict", "-f", "-"}, list.dump());
  EXPECT_EQ(tried.exit_code, 0) << tried.err << created.err;
}

}  // namespace
}  // namespace compilecache
