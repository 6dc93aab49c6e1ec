#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "tests/support/kubectl.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/process.hpp"

// The real API server's view of config/install.yaml: defaults, refusals and their sentences,
// columns. The policy that confines the operator's Jobs is job_policy_test.cpp's.

namespace compilecache {
namespace {

using nlohmann::json;
using std::chrono::seconds;
using testing::at;
using ::testing::ElementsAre;
using testing::eventually;
using testing::get_json;
using ::testing::HasSubstr;
using testing::kubectl;

const std::string kInstall = testing::in_tree("config/install.yaml");

std::vector<std::string> words(const std::string& line) {
  std::istringstream in(line);
  return {std::istream_iterator<std::string>(in), {}};
}

// A namespace with one CompileCache called "one".
class Installed : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const auto applied = kubectl({"apply", "-f", kInstall});
    ASSERT_EQ(applied.exit_code, 0) << applied.err;
    ASSERT_TRUE(testing::are_established(
        {"compilecaches.compilecache.dev", "compilecachearchives.compilecache.dev"}));
  }

  void SetUp() override {
    namespace_ = "crds-" + random_id(system_random()).substr(0, 8);
    ASSERT_EQ(kubectl({"create", "namespace", namespace_}).exit_code, 0);
    ASSERT_EQ(testing::apply(cache("one")), "");
  }
  void TearDown() override { kubectl({"delete", "namespace", namespace_, "--wait=false"}); }

  [[nodiscard]] json cache(const std::string& name) const {
    return {{"apiVersion", "compilecache.dev/v1alpha1"},
            {"kind", "CompileCache"},
            {"metadata", {{"name", name}, {"namespace", namespace_}}},
            {"spec", {{"storage", {{"claimName", "caches"}}}}}};
  }

  [[nodiscard]] json archive() const {
    return {{"apiVersion", "compilecache.dev/v1alpha1"},
            {"kind", "CompileCacheArchive"},
            {"metadata", {{"name", "one-0123456789"}, {"namespace", namespace_}}},
            {"spec",
             {{"cache", "one"},
              {"key", {{"GPUProduct", "NVIDIA-H100-80GB-HBM3"}, {"GPUCount", "1"}}},
              {"claimName", "caches"},
              {"path", "one"}}}};
  }

  // The API server's answer to a change of "one"; empty when it accepts it. Nothing is changed.
  [[nodiscard]] std::string refusal(const std::string& spec) const {
    const auto patched = kubectl({"patch", "cc", "one", "-n", namespace_, "--type=merge",
                                  "--dry-run=server", "-p", R"({"spec":)" + spec + "}"});
    return patched.exit_code == 0 ? "" : patched.err;
  }

  void set_status(const std::string& resource, const std::string& status) const {
    const auto patched = kubectl({"patch", resource, "-n", namespace_, "--subresource=status",
                                  "--type=merge", "-p", R"({"status":)" + status + "}"});
    ASSERT_EQ(patched.exit_code, 0) << patched.err;
  }

  std::string namespace_;
};

TEST_F(Installed, ApplyingAgainChangesNothing) {
  const auto again = kubectl({"apply", "-f", kInstall});
  EXPECT_EQ(again.exit_code, 0) << again.err;
  std::istringstream lines(again.out);
  for (std::string line; std::getline(lines, line);) {
    // kubectl says so of every PodDisruptionBudget: its selector is always sent whole.
    if (line.starts_with("poddisruptionbudget")) continue;
    EXPECT_TRUE(line.ends_with(" unchanged")) << line;
  }
}

TEST_F(Installed, DefaultsAppear) {
  const json spec = get_json({"cc", "one", "-n", namespace_})["spec"];
  EXPECT_EQ(spec["frameworks"], (json{"torch", "triton"}));
  EXPECT_EQ(spec["key"], (json{"GPUProduct", "GPUCount", "Architecture", "Image"}));
  EXPECT_EQ(spec["load"],
            (json{{"fallback", "Compatible"}, {"waitForFirst", "0s"}, {"timeout", "120s"}}));
  EXPECT_EQ(at(spec, "/save/maxArchiveSize"), "1Gi");
  EXPECT_EQ(at(spec, "/retention/keepPerGPU"), 5);
  EXPECT_EQ(at(spec, "/compression"), (json{{"level", 9}, {"threads", 2}, {"window", "16Mi"}}));
}

// Older API servers name the value's type, or nothing, where newer ones name the value.
std::string without_values(const std::string& text) {
  static const std::regex value(R"(Invalid value: ("[^"]*"|[0-9]+): )");
  return std::regex_replace(text, value, "Invalid value: ");
}

TEST_F(Installed, AWrongValueIsRefusedWithASentence) {
  struct Case {
    const char* spec;
    const char* sentence;
  };
  const std::vector<Case> cases{
      {R"({"load": {"timeout": "2 minutes"}})",
       "spec.load.timeout: Invalid value: \"2 minutes\": must be a duration like 30s"},
      {R"({"load": {"timeout": "0s"}})", "must be between 1s and 1h"},
      {R"({"load": {"waitForFirst": "2h"}})",
       "spec.load.waitForFirst: Invalid value: \"2h\": must be at most 1h"},
      {R"({"load": {"fallback": "Best"}})",
       R"(spec.load.fallback: Unsupported value: "Best": supported values: "Exact", "Compatible")"},
      {R"({"save": {"policy": "Always"}})", R"(supported values: "OnChange", "Once", "Never")"},
      {R"({"save": {"maxArchiveSize": "12 GB"}})",
       "must be a size in bytes like 500M, 1.5Gi or 50Gi"},
      {R"({"save": {"maxArchiveSize": 0}})",
       "spec.save.maxArchiveSize: Invalid value: 0: must be more than 0"},
      {R"({"save": {"lockTimeout": "1s"}})", "must be between 3s and 10m"},
      {R"({"save": {"lockTimeout": "11m"}})", "must be between 3s and 10m"},
      {R"({"save": {"quietPeriod": "0s"}})",
       "spec.save.quietPeriod: Invalid value: \"0s\": must be between 1s and 24h"},
      {R"({"save": {"quietPeriod": "25h"}})", "must be between 1s and 24h"},
      {R"({"save": {"quietPeriod": "soon"}})", "must be a duration like 30s"},
      {R"({"save": {"atTermination": "11m"}})",
       "spec.save.atTermination: Invalid value: \"11m\": must be at most 10m"},
      {R"({"save": {"atTermination": "-1s"}})", "must be a duration like 30s"},
      {R"({"retention": {"unusedFor": "999ms"}})",
       "spec.retention.unusedFor: Invalid value: \"999ms\": must be at least 1s"},
      {R"({"retention": {"unusedFor": "30d"}})", "must be a duration like 30s"},
      {R"({"retention": {"maxTotalSize": 0}})",
       "spec.retention.maxTotalSize: Invalid value: 0: must be more than 0"},
      {R"({"retention": {"maxTotalSize": "0Gi"}})", "must be more than 0"},
      {R"({"retention": {"maxTotalSize": "lots"}})",
       "must be a size in bytes like 500M, 1.5Gi or 50Gi"},
      {R"({"retention": {"incompleteTimeout": "0s"}})",
       "spec.retention.incompleteTimeout: Invalid value: \"0s\": must be between 1s and 24h"},
      {R"({"retention": {"incompleteTimeout": "25h"}})", "must be between 1s and 24h"},
      {R"({"retention": {"incompleteTimeout": ""}})", "must be a duration like 30s"},
      {R"({"retention": {"sweepInterval": "4s"}})",
       "spec.retention.sweepInterval: Invalid value: \"4s\": must be at least 5s"},
      {R"({"retention": {"sweepInterval": "6"}})", "must be a duration like 30s"},
      {R"({"remoteCache": {"redis": {"host": "r", "port": 0}}})",
       "should be greater than or equal to 1"},
      {R"({"remoteCache": {"redis": {"host": "r", "port": 65536}}})",
       "should be less than or equal to 65535"},
      {R"({"retention": {"keepPerGPU": 0}})", "should be greater than or equal to 1"},
      {R"({"resources": {"save": {"limits": {"memory": "64Mi"}}}})",
       "spec.resources.save.limits.memory: Invalid value: \"64Mi\": must be from 128Mi to 64Gi"},
      {R"({"resources": {"load": {"limits": {"cpu": "50m"}}}})", "must be from 100m to 64"},
      {R"({"resources": {"save": {"limits": {"cpu": "5m"}}}})", "must be from 10m to 64"},
      {R"({"resources": {"save": {"limits": {"ephemeral-storage": 1000}}}})",
       "must be from 128Mi to 1Ti"},
      {R"({"resources": {"load": {"requests": {"cpu": 65}}}})", "must be at most 64"},
      {R"({"resources": {"load": {"requests": {"memory": "lots"}}}})",
       "must be a size in bytes like 500M, 1.5Gi or 50Gi"},
      {R"({"resources": {"load": {"requests": {"cpu": "1Gi"}}}})",
       "must be a number of processors"},
      {R"({"resources": {"load": {"requests": {"cpu": 2}, "limits": {"cpu": "1500m"}}}})",
       "spec.resources.load: Invalid value: requests.cpu must not be more than limits.cpu"},
      {R"({"resources": {"save": {"requests": {"ephemeral-storage": "2Gi"},
          "limits": {"ephemeral-storage": "1Gi"}}}})",
       "requests.ephemeral-storage must not be more than limits.ephemeral-storage"},
      {R"({"compression": {"level": 22}})", "should be less than or equal to 19"},
      {R"({"compression": {"threads": 0}})", "should be greater than or equal to 1"},
      {R"({"compression": {"window": "64Mi"}})", R"(Unsupported value: "64Mi")"},
      {R"({"key": ["GPUCount"]})",
       "must contain GPUProduct: kernels compiled for one GPU do not run on another"},
      {R"({"key": ["GPUProduct", "Hostname"]})", R"(Unsupported value: "Hostname")"},
      {R"({"key": ["GPUProduct", "Image", "Image"]})", "must not name a part twice"},
      {R"({"frameworks": ["torch", "torch"]})", "must not name a framework twice"},
      {R"({"frameworks": []})", "should have at least 1 items"},
      {R"({"storage": {"subPath": "/abs"}})", "must be relative to the volume's root"},
      {R"({"storage": {"subPath": "a/../.."}})", "must be relative to the volume's root"},
      {R"({"storage": {"claimName": "Not_A_Name"}})", "spec.storage.claimName"},
      {R"({"storage": {"registry": {"repository": "r.example.com/a"}}})",
       "spec.storage: Invalid value: claimName and registry exclude each other"},
      {R"({"storage": {"claimName": null, "subPath": "a"}})", "are of a claim; name one"},
      {R"({"storage": {"claimName": null, "allowReadWriteOnce": true}})", "are of a claim"},
      {R"({"storage": {"claimName": null, "allowNodeAffinity": true}})", "are of a claim"},
      {R"({"storage": {"claimName": null, "allowUserNamespaces": true}})", "are of a claim"},
      {R"({"storage": {"claimName": null, "registry": {}}})",
       "spec.storage.registry.repository: Required value"},
      {R"({"storage": {"claimName": null, "registry": {"repository": "r.io/a",
          "secretName": "Not_A_Name"}}})",
       "spec.storage.registry.secretName"},
      {R"({"storage": {"copyFrom": {"claimName": "a", "registry": {"repository": "r.io/a"}}}})",
       "spec.storage.copyFrom: Invalid value: claimName and registry exclude each other"},
      {R"({"storage": {"copyFrom": {"subPath": "a"}}})", "is of a claim; name one"},
      {R"({"storage": {"copyFrom": {"registry": {"repository": "https://r.io/a"}}}})",
       "spec.storage.copyFrom.registry.repository: Invalid value"},
      {R"({"remoteCache": {"redis": {}}})", "spec.remoteCache.redis.host: Required value"},
      {R"({"remoteCache": {"redis": {"host": "$(DB_PASSWORD).evil.example"}}})",
       "spec.remoteCache.redis.host: Invalid value"},
      {R"({"storage": null})",
       "spec.storage: Required value: name a PersistentVolumeClaim of the namespace in "
       "storage.claimName or a registry in storage.registry, write \"storage: {}\" for the "
       "installation's own registry, or name a Redis server"},
      {R"({"storage": null, "remoteCache": {}})", "spec.storage: Required value"},
  };
  for (const Case& wrong : cases) {
    EXPECT_NE(without_values(refusal(wrong.spec)).find(without_values(wrong.sentence)),
              std::string::npos)
        << wrong.spec << " was answered: " << refusal(wrong.spec);
  }
}

TEST_F(Installed, ValuesInEverySpellingAreAccepted) {
  for (const char* spec :
       {R"({"save": {"maxArchiveSize": 123456}})", R"({"save": {"maxArchiveSize": "1.5Gi"}})",
        R"({"load": {"timeout": "1m30s"}})", R"({"save": {"atTermination": "0s"}})",
        R"({"save": {"quietPeriod": "1s", "atTermination": "10m", "lockTimeout": "3s"}})",
        R"({"save": {"quietPeriod": "24h", "lockTimeout": "10m"}})",
        R"({"retention": {"unusedFor": "1s", "maxTotalSize": 1, "incompleteTimeout": "1s"}})",
        R"({"retention": {"sweepInterval": "5s", "incompleteTimeout": "24h"}})",
        R"({"remoteCache": {"redis": {"host": "r", "port": 65535}}})",
        R"({"key": ["GPUProduct", "Workload", "CPUFeatures", "DriverVersion"]})",
        R"({"storage": {"subPath": "team-a/caches"}})",
        R"({"remoteCache": {"redis": {"host": "redis.ml.svc"}}})",
        R"({"storage": null, "remoteCache": {"redis": {"host": "redis.ml.svc"}}})"}) {
    EXPECT_EQ(refusal(spec), "") << spec;
  }
}

std::string in_repository(const std::string& repository) {
  return R"({"storage": {"claimName": null, "registry": {"repository": ")" + repository + R"("}}})";
}

TEST_F(Installed, ARepositoryThatIsNoneIsRefusedWithASentence) {
  const std::vector<std::pair<std::string, const char*>> cases{
      {"https://harbor.example.com/ml", "must not have a scheme"},
      {"harbor.example.com/ml:v1", "must not have a tag"},
      {"harbor.example.com:5000/ml/caches:v1", "must not have a tag"},
      {"harbor.example.com/ml@sha256:0123", "must not have a digest"},
      {"harbor.example.com/ML", "must be in lower case"},
      {"harbor.example.com", "must have a path"},
      {"ml/caches", "must begin with the registry's host"},
      {"harbor.example.com/a//b", "must be one that registries accept"},
      {"harbor.example.com/a/", "must be one that registries accept"},
      {"harbor.example.com/../a", "must be one that registries accept"},
      {"harbor.example.com/-a", "must be one that registries accept"},
      {"$(x).example.com/a", "must begin with the registry's host"},
      // With "/n/one" below it, of which the namespace is longer yet.
      {"harbor.example.com/" + std::string(250, 'a'), "is too long: "},
  };
  for (const auto& [repository, sentence] : cases) {
    const std::string error = refusal(in_repository(repository));
    EXPECT_NE(error.find("spec.storage.registry.repository: Invalid value"), std::string::npos)
        << repository << " was answered: " << error;
    EXPECT_NE(error.find(sentence), std::string::npos) << repository << " was answered: " << error;
  }
  for (const char* good :
       {"harbor.example.com/ml/caches", "10.0.0.7:5000/a", "localhost/a", "localhost:5000/a",
        "[fd00::7]:5000/a/b", "r.example.com/a__b/c.d/e--f"}) {
    EXPECT_EQ(refusal(in_repository(good)), "") << good;
  }
  EXPECT_EQ(refusal(in_repository("harbor.example.com/" + std::string(249, 'a'))), "");
}

TEST_F(Installed, AnEmptyStorageIsTheInstallationsOwnRegistry) {
  json object = cache("two");
  object["spec"]["storage"] = json::object();
  EXPECT_EQ(testing::apply(object), "");
  object["spec"]["storage"] = {{"adopt", true}};
  EXPECT_EQ(testing::apply(object), "") << "the repository may be another cluster's";
}

TEST_F(Installed, AFieldThatDoesNotExistIsRefused) {
  json object = cache("two");
  object["spec"]["storage"]["claim"] = "caches";
  EXPECT_NE(testing::apply(object).find("unknown field \"spec.storage.claim\""), std::string::npos);
}

TEST_F(Installed, ANameOf63CharactersIsTheLongest) {
  EXPECT_EQ(testing::apply(cache(std::string(63, 'a'))), "");
  EXPECT_NE(testing::apply(cache(std::string(64, 'a'))).find("has at most 63 characters"),
            std::string::npos);
}

TEST_F(Installed, TheClaimCannotBeSwappedUnderArchives) {
  const std::string other_claim = R"({"storage": {"claimName": "other"}})";
  EXPECT_EQ(refusal(other_claim), "");
  set_status("cc/one", R"({"archives": 1})");
  EXPECT_NE(refusal(other_claim).find("can change only while the cache has no archives"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"storage": {"subPath": "b"}})").find("can change only"), std::string::npos);
  EXPECT_NE(
      refusal(R"({"storage": null, "remoteCache": {"redis": {"host": "r"}}})").find("can change"),
      std::string::npos);
  EXPECT_NE(refusal(in_repository("r.example.com/a")).find("can change only"), std::string::npos);
  EXPECT_NE(refusal(R"({"storage": {"claimName": null}})").find("can change only"),
            std::string::npos);
  EXPECT_EQ(refusal(R"({"version": "2"})"), "");
}

TEST_F(Installed, TheRegistryCannotBeSwappedUnderArchives) {
  json object = cache("one");
  object["spec"]["storage"] = {{"registry", {{"repository", "r.example.com/a"}}}};
  ASSERT_EQ(testing::apply(object), "");
  set_status("cc/one", R"({"archives": 1})");
  EXPECT_EQ(refusal(R"({"storage": {"registry": {"secretName": "other"}}})"), "")
      << "credentials may change";
  for (const char* other : {R"({"storage": {"registry": {"repository": "r.example.com/b"}}})",
                            R"({"storage": {"registry": null}})",
                            R"({"storage": {"registry": null, "claimName": "caches"}})"}) {
    EXPECT_NE(refusal(other).find("can change only while the cache has no archives"),
              std::string::npos)
        << other << refusal(other);
  }
}

TEST_F(Installed, ColumnsTellWhatThereIs) {
  set_status(
      "cc/one",
      R"({"archives": 2, "gpuProducts": 1, "totalBytes": 606208, "lastSaveTime": "2026-01-01T00:00:00Z",
                           "summary": {"store": "claim caches", "size": "592Ki", "loads": "3 exact, 1 missing", "effect": "2 full",
                                       "saves": "4 committed, 1 failed", "hits": "75%", "mainEffect": "full", "saved": "5h12m"},
                           "conditions": [{"type": "Ready", "status": "False", "reason": "RegistryNotInstalled"}]})");
  const std::string caches = kubectl({"get", "cc", "-n", namespace_}).out;
  std::istringstream lines(caches);
  std::string header, row;
  std::getline(lines, header);
  std::getline(lines, row);
  EXPECT_THAT(words(header),
              ElementsAre("NAME", "READY", "REASON", "ARCHIVES", "HITS", "EFFECT", "SAVED", "AGE"));
  const std::vector<std::string> shown = words(row);
  ASSERT_EQ(shown.size(), 8U) << caches;
  EXPECT_THAT(std::vector<std::string>(shown.begin(), shown.end() - 1),
              ElementsAre("one", "False", "RegistryNotInstalled", "2", "75%", "full", "5h12m"));
  EXPECT_LE(header.size(), 100U);
  EXPECT_LE(row.size(), 100U);
  const std::string wide = kubectl({"get", "cc", "-n", namespace_, "-o", "wide"}).out;
  for (const char* text :
       {"STORE", "claim caches", "GPUS", "SIZE", "LOADS", "EFFECTS", "SAVES", "LAST SAVE", "PODS",
        "592Ki", "3 exact, 1 missing", "2 full", "4 committed, 1 failed"}) {
    EXPECT_THAT(wide, HasSubstr(text));
  }
  ASSERT_EQ(testing::apply(archive()), "");
  set_status("cca/one-0123456789",
             R"({"head": {"generation": 3, "files": 28}, "lastUsedTime": "2026-01-01T00:00:00Z",
                                       "summary": {"size": "98Ki", "loads": "4 exact"}})");
  const std::string archives = kubectl({"get", "cca", "-n", namespace_}).out;
  for (const char* text : {"CACHE", "GPU PRODUCT", "GENERATION", "SIZE", "FILES", "LOADS",
                           "LAST USED", "AGE", "NVIDIA-H100-80GB-HBM3", "98Ki", "28", "4 exact"}) {
    EXPECT_NE(archives.find(text), std::string::npos) << text << " is not in\n" << archives;
  }
}

TEST_F(Installed, AnArchivesSpecNeverChanges) {
  json object = archive();
  ASSERT_EQ(testing::apply(object), "");
  object["spec"]["claimName"] = "other";
  EXPECT_NE(testing::apply(object).find("an archive's spec never changes"), std::string::npos);
}

TEST_F(Installed, AnArchiveIsInOnePlace) {
  json object = archive();
  object["spec"]["registry"] = {{"repository", "a/b"}};
  EXPECT_NE(testing::apply(object).find("on the volume of a claim or in a registry"),
            std::string::npos);
  object["spec"].erase("claimName");
  EXPECT_EQ(testing::apply(object), "");
  object["metadata"]["name"] = "one-nowhere";
  object["spec"].erase("registry");
  EXPECT_NE(testing::apply(object).find("on the volume of a claim or in a registry"),
            std::string::npos);
}

TEST_F(Installed, ExplainTeaches) {
  const std::string text = kubectl({"explain", "cc.spec.load"}).out;
  EXPECT_NE(text.find("The archive of a pod without one for exactly its key"), std::string::npos)
      << text;
}

TEST(Install, IsWhatKustomizeMakesOfItsParts) {
  const auto checked = testing::run_process({testing::in_tree("config/generate.sh"), "--check"});
  EXPECT_EQ(checked.exit_code, 0) << checked.out << checked.err;
}

TEST(Install, EveryComponentGoesWithIt) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / ("kustomize-" + random_id(system_random()));
  fs::create_directories(folder);
  const auto built_with = [&](const std::string& component) {
    // Kustomize wants paths relative to the folder.
    const fs::path config = fs::relative(testing::in_tree("config"), folder);
    std::ofstream(folder / "kustomization.yaml")
        << "resources: [" << config.string() << "]\ncomponents: ["
        << (config / "components" / component).string() << "]\n";
    const auto built = kubectl({"kustomize", folder.string()});
    EXPECT_EQ(built.exit_code, 0) << component << built.err;
    return built.out;
  };
  for (const auto& entry : fs::directory_iterator(testing::in_tree("config/components"))) {
    EXPECT_NE(built_with(entry.path().filename()).find("kind: Deployment"), std::string::npos);
  }
  const std::string replacing = built_with("replace-stuck-pods");
  EXPECT_NE(replacing.find("- --replace-stuck-pods\n"), std::string::npos);
  EXPECT_NE(replacing.find("- pods/eviction\n"), std::string::npos);
  fs::remove_all(folder);
}

}  // namespace
}  // namespace compilecache
