#include "podspec/environment.hpp"

#include "api/names.hpp"
#include "base/json_writer.hpp"

namespace compilecache::podspec {

namespace {

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

}  // namespace

std::string agent_environment(const api::AgentConfig& config,
                              const std::vector<std::string>& more) {
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
  for (const std::string& variable : more) out.raw(variable);
  out.end_array();
  return out.text();
}

}  // namespace compilecache::podspec
