#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "tests/support/kubectl.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/process.hpp"

// Everything in examples/: the real API server accepts each manifest, field by field, and each
// annotated pod template is injected by the CompileCache beside it.

namespace compilecache {
namespace {

namespace fs = std::filesystem;
using testing::kubectl;
using testing::run_process;

const std::string kExamples = testing::in_tree("examples");

std::vector<std::string> files_named(bool (*wanted)(const fs::path&)) {
  std::vector<std::string> found;
  for (const auto& entry : fs::recursive_directory_iterator(kExamples)) {
    // Those need the resources of other projects: tests/controllers/examples.py.
    const bool of_others = entry.path().string().starts_with(kExamples + "/controllers/");
    if (entry.is_regular_file() && !of_others && wanted(entry.path())) {
      found.push_back(entry.path());
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<std::string> manifests() {
  return files_named([](const fs::path& path) {
    return path.extension() == ".yaml" && path.filename() != "kustomization.yaml";
  });
}

std::vector<std::string> kustomizations() {
  std::vector<std::string> folders;
  for (const fs::path file :
       files_named([](const fs::path& path) { return path.filename() == "kustomization.yaml"; })) {
    folders.push_back(file.parent_path());
  }
  return folders;
}

class Examples : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const auto applied = kubectl({"apply", "-f", testing::in_tree("config/crds.yaml")});
    ASSERT_EQ(applied.exit_code, 0) << applied.err;
    ASSERT_TRUE(testing::are_established({"compilecaches.compilecache.dev"}));
  }
  void SetUp() override {
    namespace_ = "examples-" + random_id(system_random()).substr(0, 8);
    ASSERT_EQ(kubectl({"create", "namespace", namespace_}).exit_code, 0);
  }
  void TearDown() override { kubectl({"delete", "namespace", namespace_, "--wait=false"}); }

  void expect_accepted(const char* flag, const std::string& path) const {
    const auto tried =
        kubectl({"apply", flag, path, "-n", namespace_, "--dry-run=server", "--validate=strict"});
    EXPECT_EQ(tried.exit_code, 0) << path << "\n" << tried.err;
  }

  std::string namespace_;
};

TEST_F(Examples, TheApiServerAcceptsEveryManifest) {
  const auto files = manifests();
  EXPECT_GE(files.size(), 15U);
  for (const std::string& file : files) expect_accepted("-f", file);
}

TEST_F(Examples, TheApiServerAcceptsEveryKustomization) {
  const auto folders = kustomizations();
  EXPECT_GE(folders.size(), 7U);
  for (const std::string& folder : folders) expect_accepted("-k", folder);
}

// As the webhook would do it, were the CompileCache ready.
TEST_F(Examples, EveryAnnotatedPodTemplateIsInjected) {
  int templates = 0;
  for (const std::string& folder : kustomizations()) {
    const auto built = kubectl({"kustomize", folder});
    ASSERT_EQ(built.exit_code, 0) << built.err;
    if (built.out.find("compilecache.dev/cache: ") == std::string::npos) continue;
    ++templates;
    const auto injected = run_process(
        {testing::in_build("cli/kubectl-compilecache"), "inject", "-f", "-", "--settings",
         testing::in_tree("config/settings.yaml"), "--namespace", namespace_, "--agent-address",
         "10.96.0.10", "--registry-address", "10.96.0.11:5000"},
        built.out);
    EXPECT_EQ(injected.exit_code, 0) << folder << "\n" << injected.err;
    const auto tried =
        kubectl({"apply", "-f", "-", "-n", namespace_, "--dry-run=server", "--validate=strict"},
                injected.out);
    EXPECT_EQ(tried.exit_code, 0) << folder << "\n" << tried.err;
  }
  EXPECT_GE(templates, 6);
}

TEST_F(Examples, TheReadmeTellsOfEveryFolder) {
  std::stringstream readme;
  readme << std::ifstream(std::string(kExamples) + "/README.md").rdbuf();
  for (const auto& entry : fs::directory_iterator(kExamples)) {
    if (!entry.is_directory()) continue;
    const std::string name = entry.path().filename();
    EXPECT_NE(readme.str().find("`" + name + "/`"), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace compilecache
