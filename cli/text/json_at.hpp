#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/time_format.hpp"

// What stands at a JSON pointer, or null where nothing does; and the text or the time there, empty
// where there is none:
//
//   at(pod, "/spec/nodeName")
//   text_in(pod, "/spec/nodeName")
//   time_in(pod, "/metadata/creationTimestamp")
//
// The result is part of `object` or of nothing that ends. Thread-safe.

namespace compilecache::cli {

inline const nlohmann::json& at(const nlohmann::json& object, const char* pointer) {
  static const nlohmann::json kNothing;
  const nlohmann::json::json_pointer path(pointer);
  return object.contains(path) ? object.at(path) : kNothing;
}

inline std::string text_in(const nlohmann::json& object, const char* pointer) {
  const nlohmann::json& value = at(object, pointer);
  return value.is_string() ? value.get<std::string>() : std::string();
}

inline std::optional<WallTime> time_in(const nlohmann::json& object, const char* pointer) {
  const auto time = parse_time(text_in(object, pointer));
  return time ? std::optional(*time) : std::nullopt;
}

}  // namespace compilecache::cli
