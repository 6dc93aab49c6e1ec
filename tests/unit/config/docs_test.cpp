#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "api/names.hpp"
#include "api/reasons.hpp"
#include "tests/paths.hpp"
#include "tests/unit/config/yaml_json.hpp"

// What people read names what they will meet.

namespace compilecache::api {
namespace {

using testing::read_source_file;

TEST(Docs, EveryReasonHasItsRow) {
  const std::string page = read_source_file("docs/reasons.md");
  for (const InjectionReasonText& text : injection_reasons()) {
    const std::string row =
        "| `" + std::string(text.word) + "` | `" + std::string(text.event) + "` | ";
    EXPECT_NE(page.find(row), std::string::npos) << text.word << " has no row with its Event";
    EXPECT_NE(page.find(text.sentence), std::string::npos) << text.word << ": " << text.sentence;
  }
}

TEST(Docs, TheReadmeNamesEveryAnnotation) {
  const std::string page = read_source_file("README.md");
  for (const char* name : {kCacheAnnotation, kContainersAnnotation, kVersionAnnotation,
                           kFrameworksAnnotation, kModeAnnotation, kQuietPeriodAnnotation,
                           kWaitForFirstAnnotation, kOnlyIfUnsetAnnotation, kStatusAnnotation}) {
    EXPECT_NE(page.find("| `" + std::string(name) + "`"), std::string::npos) << name;
  }
}

TEST(Docs, TheReadmeNamesEveryFieldOfACompileCache) {
  const std::string page = read_source_file("README.md");
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

// Also the rooms of a folder, which have a library each.
TEST(Docs, EveryFolderSaysWhatItIsFor) {
  namespace fs = std::filesystem;
  for (const fs::directory_entry& entry : fs::directory_iterator(CC_SOURCE_DIR)) {
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
