#include "webhook/environment.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <set>

namespace compilecache::webhook {

namespace {

constexpr std::string_view kDirectory = "{directory}";
constexpr std::string_view kHost = "{host}";
constexpr std::string_view kPort = "{port}";

std::string replaced(std::string value, std::string_view what, const std::string& by) {
  for (size_t at = 0; (at = value.find(what, at)) != std::string::npos; at += by.size()) {
    value.replace(at, what.size(), by);
  }
  return value;
}

// Frameworks whose directory lies in another's have none of their own.
const CacheDirectory* directory_of(const std::vector<CacheDirectory>& directories,
                                   const frameworks::Framework* framework) {
  const auto found = std::find_if(
      directories.begin(), directories.end(),
      [&](const CacheDirectory& directory) { return directory.framework == framework; });
  return found == directories.end() ? nullptr : &*found;
}

// The value with the framework's directory in it; nothing where it needs one and there is none.
std::optional<std::string> placed_in(const CacheDirectory* directory, const std::string& value) {
  if (value.find(kDirectory) == std::string::npos) return value;
  if (directory == nullptr) return std::nullopt;
  return replaced(value, kDirectory, directory->path);
}

}  // namespace

std::vector<podspec::Variable> app_environment(
    const Json& container, const std::vector<CacheDirectory>& directories,
    const std::vector<const frameworks::Framework*>& frameworks,
    const api::CompileCacheSpec::Redis& redis, bool start_kit) {
  const auto theirs = array_member(container, "env");
  std::vector<podspec::Variable> added;
  const auto add = [&](const std::string& name, const std::string& value) {
    const bool is_there =
        find_named(theirs, name) != nullptr ||
        std::any_of(added.begin(), added.end(),
                    [&](const podspec::Variable& variable) { return variable.name == name; });
    if (!is_there) added.push_back({name, value});
  };
  for (const frameworks::Framework* framework : frameworks) {
    const CacheDirectory* directory = directory_of(directories, framework);
    for (const auto& [name, value] : framework->env) {
      if (const auto placed = placed_in(directory, value)) add(name, *placed);
    }
    if (start_kit) {
      for (const auto& [name, variable] : framework->start_kit) {
        if (const auto placed = placed_in(directory, variable.value)) add(name, *placed);
      }
    }
    if (redis.host.empty()) continue;
    for (const auto& [name, value] : framework->redis_env) {
      add(name, replaced(replaced(value, kHost, redis.host), kPort, std::to_string(redis.port)));
    }
  }
  return added;
}

std::vector<std::string> start_kit_offers(
    const Json& pod, const std::vector<size_t>& containers,
    const std::vector<CacheDirectory>& directories,
    const std::vector<const frameworks::Framework*>& frameworks) {
  const auto is_missing = [&](const std::string& name) {
    return std::any_of(containers.begin(), containers.end(), [&](size_t index) {
      return find_named(array_member(container_at(pod, index), "env"), name) == nullptr;
    });
  };
  std::set<std::string> told;
  std::vector<std::string> offers;
  for (const frameworks::Framework* framework : frameworks) {
    const CacheDirectory* directory = directory_of(directories, framework);
    for (const auto& [name, variable] : framework->start_kit) {
      const auto value = placed_in(directory, variable.value);
      if (!value || !is_missing(name) || !told.insert(name).second) continue;
      offers.push_back(name + "=" + *value + ", since " + variable.since + ": " + variable.brings);
    }
  }
  return offers;
}

std::vector<std::string> proxy_environment(const Json& container) {
  std::vector<std::string> found;
  for (const char* name : {"HTTPS_PROXY", "NO_PROXY", "https_proxy", "no_proxy"}) {
    const Json* variable = find_named(array_member(container, "env"), name);
    if (variable == nullptr) continue;
    const bool refers = text_member(*variable, "value").find("$(") != std::string_view::npos ||
                        has_member(object_member(*variable, "valueFrom"), "resourceFieldRef");
    if (!refers) found.push_back(to_text(*variable));
  }
  return found;
}

bool is_host(std::string_view text) {
  constexpr size_t kLongest = 253;
  const auto is_part = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_' || c == ':';
  };
  return !text.empty() && text.size() <= kLongest &&
         std::all_of(text.begin(), text.end(), is_part) &&
         std::string_view(".-_").find(text.front()) == std::string_view::npos &&
         std::string_view("-_").find(text.back()) == std::string_view::npos;
}

std::vector<podspec::Variable> cold_environment(
    const Json& container, const std::vector<const frameworks::Framework*>& frameworks) {
  std::map<std::string, std::string> wanted;
  for (const frameworks::Framework* framework : frameworks) {
    wanted.insert(framework->cold_env.begin(), framework->cold_env.end());
  }
  std::vector<podspec::Variable> added;
  for (const auto& [name, value] : wanted) {
    if (find_named(array_member(container, "env"), name) == nullptr) added.push_back({name, value});
  }
  return added;
}

}  // namespace compilecache::webhook
