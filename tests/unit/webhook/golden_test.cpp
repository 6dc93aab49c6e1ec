#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "api/names.hpp"
#include "tests/support/paths.hpp"
#include "tests/unit/webhook/golden_case.hpp"
#include "tests/unit/webhook/kubernetes_qos.hpp"
#include "tests/unit/webhook/pods.hpp"

namespace compilecache::webhook::testing {
namespace {

class Golden : public ::testing::TestWithParam<std::string> {
 protected:
  const GoldenCase golden_ = load_golden_case(GetParam());
  const Injected result_ = golden_.run(golden_.pod);
};

TEST_P(Golden, PodAndReportAreAsWritten) {
  const std::string pod_file =
      golden_.folder + (golden_.is_large ? "/patch.json" : "/patched.json");
  const std::string report_file = golden_.folder + "/report.json";
  std::optional<json> expected = result_.pod;
  if (golden_.is_large && expected) expected = result_.patch;
  if (updating_golden()) {
    std::filesystem::remove(pod_file);
    if (expected) write_json(pod_file, *expected);
    write_json(report_file, to_json(result_.report));
  }
  EXPECT_EQ(read_json(report_file), to_json(result_.report));
  EXPECT_EQ(read_json(pod_file), expected);
}

// The webhook tries its patches, so it must do what every other reader of them does.
TEST_P(Golden, TriedOutThePatchGivesTheSameResult) {
  if (!result_.pod) return;
  JsonDocument pod = tree_of(golden_.pod);
  ASSERT_TRUE(apply(result_.patch.dump(), pod, pod.GetAllocator()));
  EXPECT_EQ(json::parse(to_text(pod)), *result_.pod);
}

TEST_P(Golden, InjectingAgainChangesNothing) {
  const json once = result_.pod.value_or(golden_.pod);
  const Injected again = golden_.run(once);
  EXPECT_EQ(again.pod, std::nullopt);
  if (result_.report.outcome == InjectionOutcome::kInjected) {
    EXPECT_EQ(again.report.outcome, InjectionOutcome::kUnchanged);
  }
}

TEST_P(Golden, NothingOfTheUsersIsChangedOrReordered) {
  if (!result_.pod) return;
  json pod =
      without_injection(golden_.pod, golden_.settings);  // an earlier version's is not the user's
  json patched = *result_.pod;
  // The one value that grows.
  for (json* object : {&pod, &patched}) {
    (*object)["metadata"]["annotations"].erase(
        "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes");
  }
  EXPECT_TRUE(contains_in_order(patched, pod));
}

TEST_P(Golden, TheQosClassStays) {
  EXPECT_EQ(kubernetes_qos(result_.pod.value_or(golden_.pod)), kubernetes_qos(golden_.pod));
}

TEST_P(Golden, WhatTheStoreNeedsIsInOurContainersOnly) {
  const json pod = result_.pod.value_or(golden_.pod);
  const json theirs = golden_.pod.at("spec").value("volumes", json::array());
  for (const char* list : {"containers", "initContainers"}) {
    for (const json& container : items(pod.at("spec"), list)) {
      const std::string name = container.at("name");
      if (name == api::kLoaderContainer || name == api::kSaverContainer) continue;
      for (const char* volume : {api::kStoreVolume, api::kTokenVolume, api::kRegistrySecretVolume,
                                 api::kRegistryCaVolume, api::kSpoolVolume, api::kStateVolume}) {
        if (named(theirs, volume) != nullptr) continue;
        EXPECT_EQ(named(items(container, "volumeMounts"), volume), nullptr) << container;
      }
    }
  }
}

// A pod waits forever for a Secret or a ConfigMap that does not exist, unless it is optional.
TEST_P(Golden, NoVolumeOfOursWaitsForAnObject) {
  const json pod = result_.pod.value_or(golden_.pod);
  for (const json& volume : items(pod.at("spec"), "volumes")) {
    if (!volume.at("name").get<std::string>().starts_with("compilecache-")) continue;
    for (const char* source : {"secret", "configMap"}) {
      const bool waits = volume.contains(source) && !volume[source].value("optional", false);
      EXPECT_FALSE(waits) << volume;
    }
  }
}

TEST_P(Golden, TakingItOutGivesThePodBack) {
  if (result_.report.reason != api::InjectionReason::kInjected) return;
  json expected = without_injection(golden_.pod, golden_.settings);
  // Empty lists say the same as missing ones.
  for (json& container : expected["spec"]["containers"]) {
    for (const char* list : {"env", "volumeMounts"}) {
      if (items(container, list).empty()) container.erase(list);
    }
  }
  EXPECT_EQ(without_injection(*result_.pod, golden_.settings), expected);
}

std::string case_table() {
  std::ifstream file(compilecache::testing::in_tree("webhook/README.md"));
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(CaseTable, EveryGoldenCaseHasItsRow) {
  const std::string table = case_table();
  for (const std::string& name : golden_case_names()) {
    EXPECT_NE(table.find("\n| `" + name + "` | "), std::string::npos)
        << name << " has no row in webhook/README.md";
  }
}

TEST(CaseTable, EveryRowHasItsGoldenCase) {
  const std::vector<std::string> names = golden_case_names();
  std::istringstream lines(case_table());
  bool in_cases = false;
  for (std::string line; std::getline(lines, line);) {
    in_cases = in_cases || line == "## Cases";
    if (!in_cases || !line.starts_with("| `")) continue;
    const std::string name = line.substr(3, line.find('`', 3) - 3);
    EXPECT_THAT(names, ::testing::Contains(name));
  }
}

// The words of api/reasons.hpp: each is some case's, and where it deserves a warning the word is in
// it, as people will look it up in docs/troubleshoot/reasons.md.
TEST(CaseTable, EveryReasonHasACaseAndItsWordIsInTheWarning) {
  std::set<std::string> met;
  for (const std::string& name : golden_case_names()) {
    const json report = read_json(load_golden_case(name).folder + "/report.json").value();
    const std::string word = report.at("reason");
    met.insert(word);
    if (report.at("outcome") != "skipped") continue;
    const std::set<std::string> silent{"disabled", "not_annotated", "mirror_pod",
                                       "namespace_excluded", "own_caches"};
    ASSERT_EQ(report.at("warnings").empty(), silent.contains(word)) << name;
    if (silent.contains(word)) continue;
    EXPECT_THAT(report.at("warnings")[0].get<std::string>(),
                ::testing::StartsWith("compilecache.dev: not injected, " + word + ": "));
  }
  for (const api::InjectionReasonText& text : api::injection_reasons()) {
    // Shown by admission_test, bounds_test and inject_test; and a patch that fails would be a bug.
    if (text.reason == api::InjectionReason::kRequestInvalid ||
        text.reason == api::InjectionReason::kTookTooLong ||
        text.reason == api::InjectionReason::kNoPodTemplate ||
        text.reason == api::InjectionReason::kPatchFailed) {
      continue;
    }
    EXPECT_TRUE(met.contains(std::string(text.word))) << text.word << " is no case's reason";
  }
}

INSTANTIATE_TEST_SUITE_P(Injection, Golden, ::testing::ValuesIn(golden_case_names()),
                         [](const auto& param) {
                           std::string name = param.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace compilecache::webhook::testing
