#include <gtest/gtest.h>

#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "api/choices.hpp"
#include "api/compile_cache_archive.hpp"
#include "api/names.hpp"
#include "api/outcomes.hpp"
#include "api/reasons.hpp"
#include "base/strings.hpp"
#include "tests/support/paths.hpp"
#include "tests/unit/config/yaml_json.hpp"

// What people read names what they will meet.

namespace compilecache::api {
namespace {

using testing::read_source_file;

TEST(Docs, EveryReasonHasItsRow) {
  const std::string page = read_source_file("docs/troubleshoot/reasons.md");
  for (const InjectionReasonText& text : injection_reasons()) {
    const std::string row =
        "| `" + std::string(text.word) + "` | `" + std::string(text.event) + "` | ";
    EXPECT_NE(page.find(row), std::string::npos) << text.word << " has no row with its Event";
    EXPECT_NE(page.find(text.sentence), std::string::npos) << text.word << ": " << text.sentence;
  }
}

TEST(Docs, TheReferenceNamesEveryAnnotation) {
  const std::string page = read_source_file("docs/reference/annotations.md");
  for (const char* name :
       {kCacheAnnotation, kContainersAnnotation, kVersionAnnotation, kFrameworksAnnotation,
        kModeAnnotation, kQuietPeriodAnnotation, kWaitForFirstAnnotation, kOnlyIfUnsetAnnotation,
        kResourcesAnnotation, kStartKitAnnotation, kStatusAnnotation, kWorkloadAnnotation}) {
    EXPECT_NE(page.find("| `" + std::string(name) + "`"), std::string::npos) << name;
  }
}

TEST(Docs, TheReferenceNamesEveryFieldOfACompileCache) {
  const std::string page = read_source_file("docs/reference/compilecache.md");
  const auto crd = testing::read_yaml_file("crds/compilecaches.yaml");
  const auto& spec = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
  for (const auto& [section, schema] : spec["properties"].items()) {
    if (!schema.contains("properties")) {
      EXPECT_NE(page.find("| `" + section + "`"), std::string::npos) << section;
      continue;
    }
    for (const auto& [name, property] : schema["properties"].items()) {
      EXPECT_NE(page.find("| `" + section + "." + name), std::string::npos)
          << section << "." << name;
    }
  }
}

template <Worded Enum>
void expect_named(const std::string& file) {
  const std::string page = read_source_file(file);
  for (const auto& known : kWords<Enum>) {
    EXPECT_NE(page.find("`" + std::string(known.metric) + "`"), std::string::npos)
        << file << " lacks " << known.metric;
  }
}

TEST(Docs, EachWordIsNamedWhereItsLikesAre) {
  expect_named<Mode>("docs/reference/annotations.md");
  expect_named<SavePolicy>("docs/reference/compilecache.md");
  expect_named<LoadOutcome>("docs/reference/columns.md");
  expect_named<SaveOutcome>("docs/reference/columns.md");
  expect_named<Effect>("docs/reference/columns.md");
  expect_named<Effect>("docs/design/architecture.md");
  expect_named<Outcome>("docs/how-to/applications.md");
  const std::string answers = read_source_file("docs/how-to/applications.md");
  for (const auto& known : kWords<Outcome>) {
    EXPECT_NE(answers.find("\n| `" + std::string(known.word) + "` | "), std::string::npos)
        << known.word << " has no row among the answers to the application";
  }
}

TEST(Docs, EveryReasonForDistrustHasItsRow) {
  const std::string page = read_source_file("docs/troubleshoot/suspect-archives.md");
  for (const auto& known : kWords<DistrustReason>) {
    EXPECT_NE(page.find("`, `" + std::string(known.word) + "` | "), std::string::npos)
        << known.word;
  }
}

// "outcome" in the expressions of alerts and dashboards.
template <Worded Enum>
void expect_known_labels(const std::string& metric, const std::string& label) {
  std::set<std::string> known;
  for (const auto& word : kWords<Enum>) known.emplace(word.metric);
  int found = 0;
  for (const char* file :
       {"config/components/prometheus-operator/rules.yaml", "config/monitoring/dashboard.json",
        "config/monitoring/rules_test.yaml"}) {
    const std::string text = read_source_file(file);
    const std::regex selector(metric + R"(\{[^}]*\b)" + label + R"(!?=~?\\?"([a-z|]+))");
    for (std::sregex_iterator it(text.begin(), text.end(), selector), end; it != end; ++it) {
      for (const std::string& word : split((*it)[1].str(), '|')) {
        EXPECT_TRUE(known.contains(word)) << file << ": " << metric << " has no " << word;
        ++found;
      }
    }
  }
  EXPECT_GT(found, 0) << metric;
}

TEST(Docs, AlertsAndDashboardsAskForLabelsThatThereAre) {
  expect_known_labels<LoadOutcome>("compilecache_loads_total", "outcome");
  expect_known_labels<SaveOutcome>("compilecache_saves_total", "outcome");
  expect_known_labels<Effect>("compilecache_effect_total", "effect");
}

// A visitor reads it in three minutes; all else is in the manual.
TEST(Docs, TheReadmeHasAtMost900Words) {
  std::istringstream page(read_source_file("README.md"));
  const auto words = std::distance(std::istream_iterator<std::string>(page), {});
  EXPECT_LE(words, 900);
}

// Written by tests/engines/run.py --page, which nobody can do for a release that was not run.
TEST(Docs, EveryReleaseOfAnEngineHasWhatCameOfIt) {
  const std::string page = read_source_file("docs/reference/engines.md");
  int releases = 0;
  for (const auto& folder :
       std::filesystem::directory_iterator(testing::in_tree("tests/engines"))) {
    const std::string name = folder.path().filename().string();
    if (!std::filesystem::exists(folder.path() / "engine.json")) continue;
    const auto told =
        nlohmann::json::parse(read_source_file("tests/engines/" + name + "/engine.json"));
    for (const auto& [release, packages] : told.at("releases").items()) {
      const std::string row = "\n| " + name + " | " + release + " | ";
      EXPECT_NE(page.find(row), std::string::npos) << row << "is missing: run it";
      ++releases;
    }
  }
  EXPECT_GE(releases, 10);
}

// Also the rooms of a folder, which have a library each.
TEST(Docs, EveryFolderSaysWhatItIsFor) {
  namespace fs = std::filesystem;
  for (const fs::directory_entry& entry : fs::directory_iterator(testing::in_tree(""))) {
    const std::string name = entry.path().filename().string();
    if (!entry.is_directory() || name.starts_with('.') || name.starts_with("build")) continue;
    EXPECT_TRUE(fs::exists(entry.path() / "README.md")) << name;
    if (name == "tests" || name == "examples") continue;
    for (const fs::directory_entry& room : fs::directory_iterator(entry.path())) {
      if (!fs::exists(room.path() / "CMakeLists.txt")) continue;
      EXPECT_TRUE(fs::exists(room.path() / "README.md")) << room.path();
    }
  }
}

}  // namespace
}  // namespace compilecache::api
