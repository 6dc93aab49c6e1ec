#include "webhook/environment.hpp"

#include <algorithm>

#include "api/names.hpp"
#include "webhook/pod_json.hpp"

namespace compilecache::webhook {

namespace {

constexpr char kForceCold[] = "TORCHINDUCTOR_FORCE_DISABLE_CACHES";
constexpr std::string_view kDirectory = "{directory}";
constexpr std::string_view kHost = "{host}";
constexpr std::string_view kPort = "{port}";

json variable(const std::string& name, const std::string& value) {
  return {{"name", name}, {"value", value}};
}

json from_field(const char* name, const char* path) {
  return {{"name", name}, {"valueFrom", {{"fieldRef", {{"fieldPath", path}}}}}};
}

std::string replaced(std::string value, std::string_view what, const std::string& by) {
  for (size_t at = 0; (at = value.find(what, at)) != std::string::npos; at += by.size()) {
    value.replace(at, what.size(), by);
  }
  return value;
}

// The kubelet replaces $(NAME) in values; in JSON a dollar can be written without one.
std::string without_dollars(const std::string& json_text) {
  std::string result;
  for (const char c : json_text) {
    if (c == '$') {
      result += "\\u0024";
    } else {
      result += c;
    }
  }
  return result;
}

// Frameworks whose directory lies in another's have none of their own.
const CacheDirectory* directory_of(const std::vector<CacheDirectory>& directories,
                                   const frameworks::Framework* framework) {
  const auto found = std::find_if(
      directories.begin(), directories.end(),
      [&](const CacheDirectory& directory) { return directory.framework == framework; });
  return found == directories.end() ? nullptr : &*found;
}

}  // namespace

json app_environment(const json& container, const std::vector<CacheDirectory>& directories,
                     const std::vector<const frameworks::Framework*>& frameworks,
                     const api::CompileCacheSpec::Redis& redis) {
  const json& theirs = array_member(container, "env");
  json added = json::array();
  const auto add = [&](const std::string& name, const std::string& value) {
    if (find_named(theirs, name) == nullptr && find_named(added, name) == nullptr) {
      added.push_back(variable(name, value));
    }
  };
  for (const frameworks::Framework* framework : frameworks) {
    const CacheDirectory* directory = directory_of(directories, framework);
    for (const auto& [name, value] : framework->env) {
      const bool needs_directory = value.find(kDirectory) != std::string::npos;
      if (needs_directory && directory == nullptr) continue;
      add(name, needs_directory ? replaced(value, kDirectory, directory->path) : value);
    }
    if (redis.host.empty()) continue;
    for (const auto& [name, value] : framework->redis_env) {
      add(name, replaced(replaced(value, kHost, redis.host), kPort, std::to_string(redis.port)));
    }
  }
  return added;
}

json agent_environment(const api::AgentConfig& config) {
  return json::array({variable(api::kConfigVariable, without_dollars(api::dump(config))),
                      from_field(api::kPodNameVariable, "metadata.name"),
                      from_field(api::kPodUidVariable, "metadata.uid"),
                      from_field(api::kNamespaceVariable, "metadata.namespace"),
                      from_field(api::kNodeNameVariable, "spec.nodeName")});
}

json cold_environment(const json& container) {
  json added = json::array();
  if (find_named(array_member(container, "env"), kForceCold) == nullptr) {
    added.push_back(variable(kForceCold, "1"));
  }
  return added;
}

}  // namespace compilecache::webhook
