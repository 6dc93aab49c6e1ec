#include "kube/json.hpp"

#include <nlohmann/json.hpp>

namespace compilecache::kube {

using Json = nlohmann::json;

std::string string_at(const Json& json, std::initializer_list<const char*> path) {
  const Json* at = &json;
  for (const char* name : path) {
    if (!at->is_object()) return "";
    auto found = at->find(name);
    if (found == at->end()) return "";
    at = &*found;
  }
  return at->is_string() ? at->get<std::string>() : "";
}

Json parse_without_managed_fields(std::string_view text) {
  const auto filter = [](int, Json::parse_event_t event, Json& parsed) {
    return event != Json::parse_event_t::key || parsed != "managedFields";
  };
  return Json::parse(text, filter, false);
}

}  // namespace compilecache::kube
