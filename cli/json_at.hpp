#pragma once

#include <nlohmann/json.hpp>

// What stands at a JSON pointer, or null where nothing does:
//
//   at(pod, "/spec/nodeName")
//
// The result is part of `object` or of nothing that ends. Thread-safe.

namespace compilecache::cli {

inline const nlohmann::json& at(const nlohmann::json& object, const char* pointer) {
  static const nlohmann::json kNothing;
  const nlohmann::json::json_pointer path(pointer);
  return object.contains(path) ? object.at(path) : kNothing;
}

}  // namespace compilecache::cli
