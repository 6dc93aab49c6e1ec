#include "webhook/environment.hpp"

#include <algorithm>
#include <cctype>
#include <map>

#include "api/names.hpp"
#include "base/json_writer.hpp"

namespace compilecache::webhook {

namespace {

constexpr std::string_view kDirectory = "{directory}";
constexpr std::string_view kHost = "{host}";
constexpr std::string_view kPort = "{port}";

void write_field(JsonWriter& out, const char* name, const char* path) {
  out.begin_object();
  out.field("name", name);
  out.key("valueFrom");
  out.begin_object();
  out.key("fieldRef");
  out.begin_object();
  out.field("fieldPath", path);
  out.end_object();
  out.end_object();
  out.end_object();
}

std::string replaced(std::string value, std::string_view what, const std::string& by) {
  for (size_t at = 0; (at = value.find(what, at)) != std::string::npos; at += by.size()) {
    value.replace(at, what.size(), by);
  }
  return value;
}

// The kubelet replaces $(NAME) in values; in JSON a dollar can be written without one.
std::string without_dollars(std::string json_text) {
  if (json_text.find('$') == std::string::npos) return json_text;
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

std::vector<Variable> app_environment(const Json& container,
                                      const std::vector<CacheDirectory>& directories,
                                      const std::vector<const frameworks::Framework*>& frameworks,
                                      const api::CompileCacheSpec::Redis& redis) {
  const auto theirs = array_member(container, "env");
  std::vector<Variable> added;
  const auto add = [&](const std::string& name, const std::string& value) {
    const bool is_there = find_named(theirs, name) != nullptr ||
                          std::any_of(added.begin(), added.end(), [&](const Variable& variable) {
                            return variable.name == name;
                          });
    if (!is_there) added.push_back({name, value});
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

std::string agent_environment(const api::AgentConfig& config) {
  const std::string text = without_dollars(api::dump(config));
  JsonWriter out(text.size() * 2);
  out.begin_array();
  out.begin_object();
  out.field("name", api::kConfigVariable);
  out.field("value", text);
  out.end_object();
  write_field(out, api::kPodNameVariable, "metadata.name");
  write_field(out, api::kPodUidVariable, "metadata.uid");
  write_field(out, api::kNamespaceVariable, "metadata.namespace");
  write_field(out, api::kNodeNameVariable, "spec.nodeName");
  out.end_array();
  return out.text();
}

std::vector<Variable> cold_environment(
    const Json& container, const std::vector<const frameworks::Framework*>& frameworks) {
  std::map<std::string, std::string> wanted;
  for (const frameworks::Framework* framework : frameworks) {
    wanted.insert(framework->cold_env.begin(), framework->cold_env.end());
  }
  std::vector<Variable> added;
  for (const auto& [name, value] : wanted) {
    if (find_named(array_member(container, "env"), name) == nullptr) added.push_back({name, value});
  }
  return added;
}

}  // namespace compilecache::webhook
