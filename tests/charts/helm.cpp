#include "tests/charts/helm.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "tests/support/paths.hpp"
#include "tests/unit/config/yaml_json.hpp"

namespace compilecache::testing {
namespace {

using nlohmann::json;

std::vector<std::string> template_command(const std::string& ns) {
  return {"template", "try", chart(), "--namespace", ns, "--values", "-"};
}

// A mapping that is empty without them is as good as none.
void erase_keys(json& object, const std::string& mapping, const std::set<std::string>& keys) {
  const json::json_pointer path(mapping);
  if (!object.contains(path)) return;
  for (const std::string& key : keys) object[path].erase(key);
  if (object[path].empty()) object[path.parent_pointer()].erase(path.back());
}

}  // namespace

ProcessResult helm(const std::vector<std::string>& arguments, const std::string& input) {
  const char* program = std::getenv("HELM");
  std::vector<std::string> command{program == nullptr ? "helm" : program};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return run_process(command, input);
}

std::string chart() { return in_tree("charts/compile-cache"); }

ProcessResult render(const json& values, const std::string& ns) {
  return helm(template_command(ns), values.dump());
}

Objects rendered(const json& values, const std::string& ns, Hooks hooks) {
  const ProcessResult result = render(values, ns);
  EXPECT_EQ(result.exit_code, 0) << result.err << values.dump();
  if (result.exit_code != 0) return {};
  Objects objects = objects_of(result.out);
  std::erase_if(objects, [&](const auto& entry) {
    const bool hook =
        entry.second.contains(json::json_pointer("/metadata/annotations/helm.sh~1hook"));
    return hook != (hooks == Hooks::kOnly);
  });
  return objects;
}

Objects objects_of(const std::string& yaml) {
  Objects objects;
  for (const json& object : read_yaml(yaml)) {
    if (object.is_null()) continue;
    const std::string name = object.at("kind").get<std::string>() + "/" +
                             object.at("metadata").at("name").get<std::string>();
    EXPECT_TRUE(objects.emplace(name, object).second) << name << " is there twice";
  }
  return objects;
}

json without_helms_own(json object) {
  erase_keys(object, "/metadata/labels",
             {"app.kubernetes.io/instance", "app.kubernetes.io/managed-by",
              "app.kubernetes.io/version", "helm.sh/chart"});
  erase_keys(object, "/metadata/annotations", {"helm.sh/resource-policy"});
  erase_keys(object, "/spec/template/metadata/annotations",
             {"checksum/settings", "checksum/config"});
  return object;
}

std::map<std::string, json> changes(const json& before, const json& after,
                                    const std::string& path) {
  std::map<std::string, json> all;
  if (before == after) return all;
  const bool mappings = before.is_object() && after.is_object();
  const bool lists = before.is_array() && after.is_array() && before.size() == after.size();
  if (!mappings && !lists) return {{path, after}};
  std::set<std::string> keys;
  for (const auto& [key, value] : before.items()) keys.insert(key);
  for (const auto& [key, value] : after.items()) keys.insert(key);
  for (const std::string& key : keys) {
    const json::json_pointer here = json::json_pointer() / key;
    const auto value_in = [&](const json& one) {
      if (one.is_array()) return one.at(std::stoul(key));
      return one.contains(key) ? one.at(key) : json();
    };
    all.merge(changes(value_in(before), value_in(after), path + here.to_string()));
  }
  return all;
}

}  // namespace compilecache::testing
