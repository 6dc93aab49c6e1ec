#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "api/names.hpp"
#include "base/sha256.hpp"
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

// What outlives a deleted namespace is left over by an uninstall that does not name it.
TEST_F(RegistryComponent, TheUninstallOfTheDocsNamesAllThatIsInstalled) {
  const auto uninstalled =
      testing::read_yaml(testing::read_source_file("config/operator-with-registry.yaml"));
  for (const json& one : objects) {
    if (one.at("kind") == "CustomResourceDefinition") continue;
    EXPECT_EQ(std::count(uninstalled.begin(), uninstalled.end(), one), 1)
        << one.at("kind") << " " << one.at("metadata").at("name");
  }
  for (const char* page : {"docs/run/uninstall.md"}) {
    for (const char* file : {"install-with-registry", "operator-with-registry"}) {
      const std::string line =
          std::string("kubectl delete --ignore-not-found -f config/") + file + ".yaml";
      EXPECT_NE(testing::read_source_file(page).find(line), std::string::npos)
          << page << ": " << line;
    }
  }
}

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

// Its pod is that of the registry, but for what writes.
TEST_F(RegistryComponent, TheReaderServesTheSameAndWritesNothing) {
  const json deployment = object("Deployment", kRegistryName + "-reader");
  EXPECT_EQ(deployment.at("spec").at("replicas"), 0) << "the operator scales it up";
  json reader = deployment.at("spec").at("template").at("spec");
  json& mounts = reader.at("containers").at(0).at("volumeMounts");
  ASSERT_EQ(mounts.at(1).at("mountPath"), "/var/lib/registry");
  EXPECT_EQ(mounts.at(1).at("readOnly"), true);
  mounts.at(1).erase("readOnly");
  json registry = pod();
  registry.erase("initContainers");
  for (json* one : {&reader, &registry}) one->erase("affinity");
  EXPECT_EQ(reader, registry);
}

// A ReadWriteOnce volume is mounted twice on one node only.
TEST_F(RegistryComponent, TheReaderIsOnTheRegistrysNode) {
  const json labels = object("Deployment", kRegistryName + "-reader")
                          .at("spec")
                          .at("template")
                          .at("metadata")
                          .at("labels");
  const json reader = object("Deployment", kRegistryName + "-reader").at("spec");
  const json term = reader.at("template")
                        .at("spec")
                        .at("affinity")
                        .at("podAffinity")
                        .at("requiredDuringSchedulingIgnoredDuringExecution")
                        .at(0);
  EXPECT_EQ(term.at("topologyKey"), "kubernetes.io/hostname");
  EXPECT_EQ(term.at("labelSelector").at("matchExpressions").at(0).at("values"),
            json::array({labels.at("app.kubernetes.io/component")}))
      << "not with itself";
  const json beside = pod()
                          .at("affinity")
                          .at("podAffinity")
                          .at("preferredDuringSchedulingIgnoredDuringExecution")
                          .at(0)
                          .at("podAffinityTerm");
  EXPECT_EQ(beside.at("labelSelector").at("matchLabels"), labels);
  EXPECT_EQ(reader.at("selector").at("matchLabels"), labels);
  // What selects the registry's pods selects these.
  for (const char* kind : {"Service", "NetworkPolicy"}) {
    const json spec = object(kind, kRegistryName).at("spec");
    const json selector =
        spec.contains("selector") ? spec.at("selector") : spec.at("podSelector").at("matchLabels");
    for (const auto& [name, value] : selector.items()) EXPECT_EQ(labels.at(name), value) << kind;
  }
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
  EXPECT_EQ(rules.at(1).at("resourceNames"), (json{kRegistryName, kRegistryName + "-reader"}));
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
    return run_script("collect.sh", variables);
  }
  testing::ProcessResult run_script(const std::string& script, const std::string& variables) const {
    return testing::run_process(
        {"/bin/sh", "-c",
         "PATH=" + (root / "bin").string() + ":$PATH CALLS=" + (root / "calls").string() +
             " REGISTRY_STORAGE_FILESYSTEM_ROOTDIRECTORY=" + (root / "data").string() + " " +
             variables + " sh " + testing::in_tree("config/components/registry/" + script) +
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
  const std::string link = repository + "_layers/sha256/" + std::string(64, 'a') + "/link";
  write(link, "sha256:" + std::string(64, 'a'));
  EXPECT_EQ(run().exit_code, 0);
  EXPECT_EQ(calls(), "garbage-collect --delete-untagged --quiet /config\n");
  EXPECT_FALSE(fs::exists(root / (repository + "_uploads")));
  EXPECT_TRUE(fs::exists(root / link));
}

// A registry's folders as distribution makes them.
class CollectStored : public Collect {
 protected:
  static constexpr char kRepositories[] = "data/docker/registry/v2/repositories/";

  void SetUp() override {
    Collect::SetUp();
    write("report", "");
  }
  [[nodiscard]] std::string text_of(const std::string& path) const {
    std::ifstream file(root / path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // A manifest with a tag and a layer; its digest without the algorithm.
  std::string put(const std::string& repository, const std::string& tag,
                  const std::string& manifest) const {
    const std::string hex = sha256_hex(manifest), at = kRepositories + repository;
    write(blob(hex), manifest);
    write(at + "/_manifests/revisions/sha256/" + hex + "/link", "sha256:" + hex);
    write(at + "/_layers/sha256/" + hex + "/link", "sha256:" + hex);
    write(at + "/_manifests/tags/" + tag + "/current/link", "sha256:" + hex);
    write(at + "/_manifests/tags/" + tag + "/index/sha256/" + hex + "/link", "sha256:" + hex);
    return hex;
  }
  static std::string blob(const std::string& hex) {
    return "data/docker/registry/v2/blobs/sha256/" + hex.substr(0, 2) + "/" + hex + "/data";
  }
  [[nodiscard]] json collect(const std::string& variables = "") const {
    EXPECT_EQ(run("COLLECT_REPORT=" + (root / "report").string() + " " + variables).exit_code, 0);
    return json::parse(text_of("report"));
  }
};

TEST_F(CollectStored, TornLinksAreMendedByTheirFoldersNames) {
  const std::string hex = put("ml/a", "g1-0123456789ab", "a manifest");
  const std::string at = std::string(kRepositories) + "ml/a/";
  for (const std::string& link :
       {at + "_manifests/revisions/sha256/" + hex + "/link", at + "_layers/sha256/" + hex + "/link",
        at + "_manifests/tags/g1-0123456789ab/current/link"}) {
    write(link, "");
  }
  EXPECT_EQ(collect(), (json{{"collected", true}, {"setAside", 0}}));
  EXPECT_EQ(text_of(at + "_manifests/revisions/sha256/" + hex + "/link"), "sha256:" + hex);
  EXPECT_EQ(text_of(at + "_layers/sha256/" + hex + "/link"), "sha256:" + hex);
  EXPECT_EQ(text_of(at + "_manifests/tags/g1-0123456789ab/current/link"), "sha256:" + hex);
}

TEST_F(CollectStored, WhatCannotBeReadIsSetAsideAndTheRestIsCollected) {
  const std::string damaged = put("ml/a", "g1-damaged", "a manifest that rots");
  const std::string gone = put("ml/b", "g1-gone", "a manifest that goes");
  const std::string whole = put("ml/b", "g2-whole", "a manifest");
  write(blob(damaged), "a manifest that rotted");
  fs::remove(root / blob(gone));
  write(std::string(kRepositories) + "ml/a/_layers/sha256/no-digest/link", "");
  EXPECT_EQ(collect(), (json{{"collected", true}, {"setAside", 5}}));
  EXPECT_EQ(calls(), "garbage-collect --delete-untagged --quiet /config\n");
  EXPECT_FALSE(fs::exists(root / kRepositories / "ml/a")) << "nothing is left of it";
  EXPECT_TRUE(fs::exists(root / "data/set-aside/ml/a/_manifests/tags/g1-damaged"));
  EXPECT_FALSE(fs::exists(root / kRepositories / "ml/b/_manifests/tags/g1-gone"));
  EXPECT_TRUE(fs::exists(root / kRepositories / "ml/b/_manifests/tags/g2-whole/current/link"));
  EXPECT_TRUE(fs::exists(root / kRepositories / "ml/b/_manifests/revisions/sha256" / whole));
}

TEST_F(CollectStored, RepositoriesWithoutATagAreGone) {
  put("pr-1/app", "g1-1", "one");
  put("ml/a", "g1-2", "two");
  const std::string tags = std::string(kRepositories) + "pr-1/app/_manifests/tags/g1-1";
  fs::remove_all(root / tags);
  EXPECT_EQ(collect("STATUS=1"), (json{{"collected", false}, {"setAside", 0}}));
  EXPECT_TRUE(fs::exists(root / kRepositories / "pr-1/app"));
  EXPECT_EQ(collect(), (json{{"collected", true}, {"setAside", 0}}));
  EXPECT_FALSE(fs::exists(root / kRepositories / "pr-1"));
  EXPECT_TRUE(fs::exists(root / kRepositories / "ml/a"));
}

// serve.sh with a registry that writes any upload.
TEST_F(CollectStored, AnUploadThatIsTooLargeEnds) {
  fs::create_directories(root / "data");
  write("bin/registry",
        "#!/bin/sh\nhead -c 3000000 /dev/zero "
        ">\"$REGISTRY_STORAGE_FILESYSTEM_ROOTDIRECTORY/upload\"\n"
        "echo \"$@\" >>\"$CALLS\"\n");
  fs::permissions(root / "bin/registry", fs::perms::owner_all);
  run_script("serve.sh", "UPLOAD_LIMIT=2 WATCH_SECONDS=1");
  EXPECT_EQ(fs::file_size(root / "data/upload"), 2U << 20);
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
