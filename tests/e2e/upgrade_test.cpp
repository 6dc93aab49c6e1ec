#include <algorithm>
#include <cstdlib>
#include <set>

#include "tests/e2e/installation.hpp"
#include "tests/support/paths.hpp"

// From the release before this tree's, as its users have it, to this tree's and back
// (docs/run/upgrade.md). The installation of the other tests comes back at the end.

namespace compilecache::e2e {
namespace {

class Upgrade : public Sandbox {
 protected:
  void SetUp() override {
    Sandbox::SetUp();
    const char* previous = std::getenv("CC_PREVIOUS_RELEASE");
    ASSERT_NE(previous, nullptr) << "CC_PREVIOUS_RELEASE=$(tests/cluster/cluster previous-release)";
    previous_ = std::string(previous) + "/config/install.yaml";
    uninstall(manifest_file());
  }

  void TearDown() override {
    if (by_helm_) remove_release();
    free_registry_volume();
    install(manifest_file());
    wait_for_registry();
    Sandbox::TearDown();
  }

  // The version that injected a pod.
  [[nodiscard]] std::string injected_by(const std::string& name) const {
    const json status = at(pod(name), "/metadata/annotations/compilecache.dev~1status");
    return status.is_string() ? json::parse(status.get<std::string>()).value("version", "") : "";
  }
  void expect_undisturbed(const std::string& name) const {
    const json now = pod(name);
    EXPECT_EQ(at(now, "/status/phase"), "Running") << name;
    for (const char* list : {"containerStatuses", "initContainerStatuses"}) {
      for (const json& container : now["status"][list])
        EXPECT_EQ(container["restartCount"], 0) << name << " " << container["name"];
    }
  }
  void expect_warm(const std::string& name) {
    const json result = run_to_ready({name, {}});
    EXPECT_GE(at(result, "/hits").get<int>(), 1) << name << ": " << result;
    EXPECT_EQ(at(result, "/misses"), 0) << name << ": " << result;
  }
  // The release before does not say for which CPU its archives are, so that nobody who compiles for
  // its CPU is given one; what it saves says it (docs/how-to/cpu.md).
  void expect_cold_once(const std::string& name) {
    const size_t before = archives().size();
    EXPECT_GE(at(run_to_ready({name, {}}), "/misses").get<int>(), 1);
    EXPECT_EQ(at(explain(name), "/load/reason"), "cpu_unknown");
    EXPECT_TRUE(eventually(seconds(60), [&] { return archives().size() == before + 1; }));
    EXPECT_TRUE(eventually(seconds(90), [&] {
      for (const json& archive : archives()) {
        // Until its graph is in it: a busy machine's compiler may be silent for longer than the
        // quiet period.
        if (!at(archive, "/spec/key/CPU").is_string() ||
            !at(archive, "/status/head/manifestDigest").is_string()) {
          continue;
        }
        const auto files = archived_files(archive);
        if (std::any_of(files.begin(), files.end(), [](const std::string& file) {
              return file.find("aotautograd/") != std::string::npos;
            })) {
          return true;
        }
      }
      return false;
    }));
  }
  void expect_saved_by(const std::string& pod) {
    EXPECT_TRUE(eventually(seconds(120), [&] {
      const std::vector<json> all = archives();
      return std::any_of(all.begin(), all.end(), [&](const json& archive) {
        return at(archive, "/status/head/savedBy") == pod;
      });
    })) << explain(pod);
  }
  void expect_cache_ready() const {
    EXPECT_TRUE(eventually(seconds(60), [&] {
      std::set<std::string> is_true;
      for (const json& condition : at(cache(), "/status/conditions")) {
        if (condition["status"] == "True") is_true.insert(condition["type"]);
      }
      return is_true.contains("Ready") && is_true.contains("StorageReady") &&
             !is_true.contains("Stalled") && !is_true.contains("Reconciling") &&
             !is_true.contains("InjectionPaused");
    })) << cache();
  }
  // The API server calls a new webhook when it has seen it and the way to its Service.
  void wait_for_injection_by(const std::string& version) {
    const std::string tried = manifest({"tried", {}}).dump();
    EXPECT_TRUE(eventually(seconds(60), [&] {
      const auto made = kubectl({"create", "--dry-run=server", "-o", "json", "-f", "-"}, tried);
      return made.out.find("\\\"version\\\":\\\"" + version + "\\\"") != std::string::npos;
    })) << version;
  }

  // An archive of the release before, which is installed.
  json save_by_the_release_before() {
    install(previous_);
    create_cache("transformer", on_the_claim());
    wait_until_ready();
    wait_for_injection_by(kOldVersion);
    run_to_ready({"cold", {}});
    json saved = wait_for_save();
    remove_pod("cold");
    return saved;
  }

  static constexpr char kOldVersion[] = "0.1.0", kNewVersion[] = "0.2.0";
  std::string previous_;  // its manifest
  bool by_helm_ = false;
};

TEST_F(Upgrade, FromTheReleaseBeforeAndBackNothingIsLost) {
  const json saved = save_by_the_release_before();
  expect_warm("running");
  // Its cache is saved after the operator's change.
  run_to_ready({.name = "saving",
                .arguments = {"--shapes", "8,16"},
                .annotations = {{"compilecache.dev/quiet-period", "40s"}}});
  EXPECT_EQ(injected_by("saving"), kOldVersion);

  install(manifest_file());
  wait_for_registry();
  wait_for_injection_by(kNewVersion);
  EXPECT_EQ(archives().size(), 1U);
  const json extended = wait_for_save(2);
  EXPECT_EQ(at(extended, "/metadata/uid"), at(saved, "/metadata/uid"));
  expect_cold_once("after");
  EXPECT_EQ(injected_by("after"), kNewVersion);
  expect_warm("warm");
  expect_undisturbed("running");
  expect_undisturbed("saving");
  expect_cache_ready();
  const json story = explain("running");
  EXPECT_EQ(at(story, "/injection/version"), kOldVersion) << story;
  EXPECT_EQ(at(story, "/load/outcome"), "exact") << story;
  EXPECT_EQ(at(run_to_ready({"more", {"--shapes", "8,24"}}), "/misses"), 1);
  // Its cache is saved when it ends, which is after the roll-back.
  run_to_ready({.name = "saving-new",
                .arguments = {"--shapes", "8,32"},
                .annotations = {{"compilecache.dev/quiet-period", "1h"}}});
  EXPECT_EQ(injected_by("saving-new"), kNewVersion);

  install(previous_);
  wait_for_injection_by(kOldVersion);
  remove_pod("saving-new");
  expect_saved_by("saving-new");
  const json back = run_to_ready({"back", {}});
  EXPECT_GE(at(back, "/hits").get<int>(), 1) << back;
  EXPECT_EQ(injected_by("back"), kOldVersion);
  for (const char* name : {"running", "saving", "after", "more"}) expect_undisturbed(name);
  expect_cache_ready();

  install(manifest_file());
  wait_for_injection_by(kNewVersion);
  expect_warm("again");
  expect_cache_ready();
}

TEST_F(Upgrade, TheChartTakesOverWhatKubectlInstalled) {
  save_by_the_release_before();
  expect_warm("running");
  by_helm_ = true;
  const auto taken = helm({"install", kRelease, testing::in_tree("charts/compile-cache"),
                           "--take-ownership", "--server-side=false", "--wait", "--timeout=3m"});
  ASSERT_EQ(taken.exit_code, 0) << taken.err << taken.out << operator_logs();
  wait_for_injection_by(kNewVersion);
  expect_cold_once("after");
  expect_warm("warm");
  expect_undisturbed("running");
  expect_cache_ready();
}

}  // namespace
}  // namespace compilecache::e2e
