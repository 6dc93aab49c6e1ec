#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.hpp"

// Reads fields of JSON that somebody else wrote. An absent field has the default; one of a wrong
// type has it too (in objects that the API server validated) or throws (in messages, caught by
// parse). Internal to api/.

namespace compilecache::api {

template <typename T>
T field(const nlohmann::json& object, const char* name, T fallback) {
  if (!object.is_object()) return fallback;
  const auto found = object.find(name);
  if (found == object.end() || found->is_null()) return fallback;
  try {
    return found->get<T>();
  } catch (const nlohmann::json::exception&) {
    return fallback;
  }
}

inline const nlohmann::json& child(const nlohmann::json& object, const char* name) {
  static const nlohmann::json none = nlohmann::json::object();
  if (!object.is_object()) return none;
  const auto found = object.find(name);
  return found == object.end() ? none : *found;
}

inline void set_if(nlohmann::json& object, const char* name, const std::string& value) {
  if (!value.empty()) object[name] = value;
}

inline void set_if(nlohmann::json& object, const char* name, int64_t value) {
  if (value != 0) object[name] = value;
}

// The text as JSON, or kInvalid naming `what`.
Result<nlohmann::json> parse_json(const std::string& text, const std::string& what);

}  // namespace compilecache::api
