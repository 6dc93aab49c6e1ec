#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "api/names.hpp"
#include "operator/options.hpp"
#include "operator/registry/registry_keeper.hpp"
#include "operator/registry/token_claims.hpp"
#include "operator/registry_access.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/process.hpp"
#include "tests/unit/config/yaml_json.hpp"

// config/install-with-registry.yaml says what the operator does, and confines the registry.

namespace compilecache::controller {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::HasSubstr;

constexpr char kInstalledIn[] = "compilecache-system";
const std::string kRegistryName = api::kRegistryService;

class RegistryComponent : public ::testing::Test {
 protected:
  [[nodiscard]] json object(const std::string& kind, const std::string& name) const {
    for (const json& one : objects) {
      if (one.at("kind") == kind && one.at("metadata").at("name") == name) return one;
    }
    ADD_FAILURE() << "there is no " << kind << " " << name;
    return json::object();
  }
  [[nodiscard]] json pod() const {
    return object("Deployment", kRegistryName).at("spec").at("template").at("spec");
  }
  // The init container and the container.
  [[nodiscard]] std::vector<json> containers() const {
    return {pod().at("initContainers").at(0), pod().at("containers").at(0)};
  }
  [[nodiscard]] json configuration() const {
    return testing::read_yaml_file("config/components/registry/config.yml");
  }

  const std::vector<json> objects =
      testing::read_yaml(testing::read_source_file("config/install-with-registry.yaml"));
};

TEST_F(RegistryComponent, ThePodIsConfined) {
  const json spec = pod();
  EXPECT_EQ(spec.at("automountServiceAccountToken"), false);
  EXPECT_FALSE(spec.contains("hostNetwork"));
  const json& security = spec.at("securityContext");
  EXPECT_EQ(security.at("runAsNonRoot"), true);
  EXPECT_GT(security.at("runAsUser"), 0);
  EXPECT_EQ(security.at("fsGroup"), security.at("runAsGroup"));
  EXPECT_EQ(security.at("seccompProfile").at("type"), "RuntimeDefault");
  ASSERT_EQ(spec.at("containers").size() + spec.at("initContainers").size(), 2U);
  for (const json& container : containers()) {
    EXPECT_EQ(container.at("securityContext"),
              json::parse(R"({"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
                              "capabilities": {"drop": ["ALL"]}})"));
    EXPECT_EQ(container.at("resources"),
              json::parse(R"({"requests": {"cpu": "50m", "memory": "64Mi"},
                              "limits": {"memory": "512Mi"}})"));
    EXPECT_EQ(container.at("env").at(0),
              json::parse(R"({"name": "GOMEMLIMIT", "value": "160MiB"})"));
    EXPECT_EQ(container.at("image"), "docker.io/library/registry:3");
  }
}

TEST_F(RegistryComponent, OnePodWritesTheVolume) {
  const json spec = object("Deployment", kRegistryName).at("spec");
  EXPECT_EQ(spec.at("replicas"), 1);
  EXPECT_EQ(spec.at("strategy").at("type"), "Recreate");
  EXPECT_EQ(object("PersistentVolumeClaim", kRegistryName).at("spec").at("accessModes"),
            json::array({"ReadWriteOnce"}));
}

TEST_F(RegistryComponent, TheAuthoritysKeyIsMountedNowhere) {
  std::set<std::string> mounted;
  const json spec = pod();
  for (const json& volume : spec.at("volumes")) {
    if (volume.contains("secret")) mounted.insert(volume.at("secret").at("secretName"));
    if (volume.value("name", "") == "auth") {
      EXPECT_EQ(volume.at("secret").at("items"),
                json::parse(R"([{"key": "ca.crt", "path": "ca.crt"}])"));
    }
  }
  EXPECT_EQ(mounted, (std::set<std::string>{kRegistryName + "-auth", kRegistryName + "-tls"}));
  for (const json& one : objects) {
    if (one.at("kind") == "Deployment") {
      EXPECT_EQ(one.dump().find("-authority"), std::string::npos);
    }
  }
}

TEST_F(RegistryComponent, TheOperatorMayDoWhatItDoes) {
  const json rules = object("Role", "compilecache-operator-registry").at("rules");
  EXPECT_EQ(rules.at(0).at("resourceNames"),
            (json{kRegistryName + "-authority", kRegistryName + "-auth", kRegistryName + "-tls"}));
  EXPECT_EQ(rules.at(0).at("verbs"), (json{"get", "update"}));
  EXPECT_EQ(rules.at(1).at("resources"), json::array({"deployments"}));
  EXPECT_EQ(rules.at(1).at("resourceNames"), json::array({kRegistryName}));
  EXPECT_EQ(rules.at(1).at("verbs"), (json{"get", "patch"}));
  EXPECT_EQ(rules.size(), 2U);
  const json cluster = object("ClusterRole", "compilecache-operator-registry").at("rules");
  EXPECT_EQ(cluster.size(), 1U);
  EXPECT_EQ(cluster.at(0).at("verbs"), json::array({"create"}));
}

TEST_F(RegistryComponent, TheOperatorIsTold) {
  const json container = object("Deployment", "compilecache-operator")
                             .at("spec")
                             .at("template")
                             .at("spec")
                             .at("containers")
                             .at(0);
  std::vector<const char*> arguments{"compilecache-operator", "--namespace", kInstalledIn};
  const auto given = container.at("args").get<std::vector<std::string>>();
  for (const std::string& argument : given) arguments.push_back(argument.c_str());
  const auto parsed = parse_options(static_cast<int>(arguments.size()), arguments.data());
  EXPECT_FALSE(parsed.exit);
  EXPECT_TRUE(parsed.options.registry);
}

TEST_F(RegistryComponent, TheNetworkIsOnePortIn) {
  const json policy = object("NetworkPolicy", kRegistryName).at("spec");
  EXPECT_EQ(policy.at("policyTypes"), (json{"Ingress", "Egress"}));
  EXPECT_EQ(policy.at("egress"), json::array());
  EXPECT_EQ(policy.at("ingress"),
            json::parse(R"([{"ports": [{"protocol": "TCP", "port": "registry"}]}])"));
  const json labels = object("Deployment", kRegistryName).at("spec").at("template").at("metadata");
  EXPECT_EQ(policy.at("podSelector").at("matchLabels"), labels.at("labels"));
  const json service = object("Service", kRegistryName).at("spec");
  EXPECT_EQ(service.at("selector"), labels.at("labels"));
  EXPECT_EQ(service.at("ports").at(0).at("port"), api::kRegistryPort);
}

TEST_F(RegistryComponent, ItAcceptsTheTokensThatTheOperatorMints) {
  const json token = configuration().at("auth").at("token");
  EXPECT_EQ(token.at("issuer"), kTokenIssuer);
  EXPECT_EQ(token.at("service"), kTokenService);
  EXPECT_EQ(token.at("signingalgorithms"), json::array({"ES256"}));
  EXPECT_EQ(token.at("realm"), "https://compilecache-agent-api." + std::string(kInstalledIn) +
                                   ".svc" + kRegistryTokenPath);
  EXPECT_EQ(token.at("rootcertbundle"), "/etc/compilecache/auth/ca.crt");
}

// With a cache of descriptors blobs that a collection took would still be said to be there.
TEST_F(RegistryComponent, ItIsConfiguredAsItWasTried) {
  const json storage = configuration().at("storage");
  EXPECT_FALSE(storage.contains("cache"));
  EXPECT_EQ(storage.at("delete").at("enabled"), true);
  EXPECT_EQ(configuration().at("http").at("relativeurls"), true);
  const auto has_mount = [&](const json& container, const std::string& path) {
    for (const json& mount : container.at("volumeMounts")) {
      if (mount.at("mountPath") == path) return true;
    }
    return false;
  };
  const std::string root = storage.at("filesystem").at("rootdirectory");
  for (const json& container : containers()) EXPECT_TRUE(has_mount(container, root));
}

TEST_F(RegistryComponent, WhatItServesIsForItsService) {
  const std::string name = kRegistryName + "." + kInstalledIn + ".svc";
  EXPECT_EQ(registry_names(kInstalledIn, kRegistryName).front(), name);
  const json certificate =
      testing::read_yaml_file("config/components/registry/cert-manager/certificate.yaml");
  EXPECT_EQ(certificate.at("spec").at("dnsNames").at(0), name);
  EXPECT_EQ(certificate.at("spec").at("secretName"), kRegistryName + "-tls");
}

// collect.sh with a program that stands for the registry.
class Collect : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(root);
    write("bin/registry",
          "#!/bin/sh\necho \"$@\" >>\"$CALLS\"\n"
          "find \"$REGISTRY_STORAGE_FILESYSTEM_ROOTDIRECTORY\" -name _uploads "
          ">>\"$CALLS\"\nexit \"${STATUS:-0}\"\n");
    fs::permissions(root / "bin/registry", fs::perms::owner_all);
  }
  void TearDown() override { fs::remove_all(root); }

  void write(const std::string& path, const std::string& text) const {
    fs::create_directories((root / path).parent_path());
    std::ofstream(root / path) << text;
  }
  [[nodiscard]] std::string calls() const {
    std::ifstream file(root / "calls");
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  [[nodiscard]] testing::ProcessResult run(const std::string& variables = "") const {
    return testing::run_process(
        {"/bin/sh", "-c",
         "PATH=" + (root / "bin").string() + ":$PATH CALLS=" + (root / "calls").string() +
             " REGISTRY_STORAGE_FILESYSTEM_ROOTDIRECTORY=" + (root / "data").string() + " " +
             variables + " sh " + testing::in_tree("config/components/registry/collect.sh") +
             " /config"});
  }

  const fs::path root = fs::temp_directory_path() / ("collect-" + std::to_string(::getpid()));
};

TEST_F(Collect, AnEmptyVolumeIsFine) {
  EXPECT_EQ(run().exit_code, 0);
  fs::create_directories(root / "data");
  EXPECT_EQ(run().exit_code, 0);
  EXPECT_EQ(calls(), "");
}

TEST_F(Collect, UploadsGoBeforeItCollects) {
  const std::string repository = "data/docker/registry/v2/repositories/ml/transformer/";
  write(repository + "_uploads/1/data", "half");
  write(repository + "_layers/sha256/a/link", "a");
  EXPECT_EQ(run().exit_code, 0);
  EXPECT_EQ(calls(), "garbage-collect --delete-untagged --quiet /config\n");
  EXPECT_FALSE(fs::exists(root / (repository + "_uploads")));
  EXPECT_TRUE(fs::exists(root / (repository + "_layers/sha256/a/link")));
}

TEST_F(Collect, TheRegistryStartsWhateverBecomesOfIt) {
  fs::create_directories(root / "data/docker/registry/v2/repositories");
  const auto failed = run("STATUS=1");
  EXPECT_EQ(failed.exit_code, 0);
  EXPECT_THAT(failed.err, HasSubstr("tries again"));
  fs::remove(root / "bin/registry");
  EXPECT_EQ(run("PATH=/bin:/usr/bin").exit_code, 0);
}

}  // namespace
}  // namespace compilecache::controller
