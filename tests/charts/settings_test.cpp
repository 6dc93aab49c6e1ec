#include <gtest/gtest.h>

#include "operator/settings/settings.hpp"
#include "tests/charts/helm.hpp"
#include "tests/support/kubectl.hpp"
#include "tests/unit/config/yaml_json.hpp"

// The values `settings` and `frameworks`: what the operator reads is the file of the tree with what
// they change.

namespace compilecache::testing {
namespace {

using nlohmann::json;

std::string settings_with(const json& values) {
  const Objects objects = rendered(values);
  const auto found = objects.find("ConfigMap/compilecache-settings");
  return found == objects.end() ? "" : at(found->second, "/data/settings.yaml").get<std::string>();
}

json only_document(const std::string& yaml) { return read_yaml(yaml).at(0); }

json file() { return read_yaml_file("config/settings.yaml"); }

TEST(ChartSettings, AreTheFileWithItsCommentsWhereNothingIsSet) {
  EXPECT_EQ(settings_with(json::object()), read_source_file("config/settings.yaml"));
}

TEST(ChartSettings, AreMergedSoThatWhatIsSetCounts) {
  const json set = {{"agent", {{"indexFallback", false}, {"address", ""}}},
                    {"limits", {{"maxConcurrentLoads", 100}}},
                    {"gpuResources", {"nvidia.com/gpu"}},
                    {"harmlessResources", json::array()},
                    {"sweep", {{"grace", "0s"}}},
                    {"traps", {{"switched-off", {{"warning", "off"}}}}}};
  json expected = file();
  expected.merge_patch(set);
  const std::string text = settings_with({{"settings", set}});
  EXPECT_EQ(only_document(text), expected);
  const auto read = controller::parse_settings(text, "settings.yaml");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_FALSE(read->agent.index_fallback);
  EXPECT_EQ(read->limits.max_concurrent_loads, 100);
  EXPECT_TRUE(read->harmless_resources.empty());
}

TEST(ChartSettings, FrameworksAreAddedAndChangedByName) {
  const json frameworks = {
      {"mine", {{"env", {{"MY_CACHE", "{directory}"}}}, {"directoryVariable", "MY_CACHE"}}},
      {"torch", {{"env", {{"TORCHINDUCTOR_AUTOGRAD_CACHE", "0"}}}}}};
  json expected = file();
  expected["frameworks"].merge_patch(frameworks);
  const std::string text = settings_with({{"frameworks", frameworks}});
  EXPECT_EQ(only_document(text), expected);
  const auto read = controller::parse_settings(text, "settings.yaml");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_TRUE(read->frameworks.contains("mine"));
  EXPECT_TRUE(read->frameworks.contains("vllm"));
}

// The schema takes all that the file has, so no setting is left out of it.
TEST(ChartSettings, EverySettingOfTheFileCanBeSet) {
  json settings = file();
  const json frameworks = settings.at("frameworks");
  settings.erase("frameworks");
  settings["registry"].erase("enabled");  // the chart's own value says it
  const std::string text = settings_with({{"settings", settings}, {"frameworks", frameworks}});
  EXPECT_EQ(only_document(text), file());
}

// And nothing that the file has not, but for what frameworks and traps may say.
void expect_in_file(const json& schema, const json& present, const std::string& path) {
  const json properties = at(schema, "/properties");
  for (const auto& [name, one] : properties.items()) {
    EXPECT_TRUE(present.contains(name)) << path << "/" << name << " is no setting";
    if (present.contains(name)) expect_in_file(one, present.at(name), path + "/" + name);
  }
}

TEST(ChartSettings, WhatIsNoSettingIsNotInTheSchema) {
  const json schema = json::parse(read_source_file("charts/compile-cache/values.schema.json"));
  expect_in_file(at(schema, "/definitions/settings"), file(), "");
}

// The policy that confines the Jobs allows what they run.
TEST(ChartSettings, AnImageForAgentsIsAllowedToJobs) {
  const Objects objects = rendered({{"settings", {{"agentImage", "r.example.com/agent:1"}}}});
  EXPECT_EQ(at(objects.at("ValidatingAdmissionPolicy/compilecache-operator-jobs"),
               "/spec/variables/0/expression"),
            "'r.example.com/agent:1'");
}

}  // namespace
}  // namespace compilecache::testing
