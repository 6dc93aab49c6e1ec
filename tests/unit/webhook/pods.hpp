#pragma once

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>

#include "webhook/patch.hpp"
#include "webhook/read_json.hpp"
#include "webhook/strip.hpp"

// Pods as tests write and compare them, and what the webhook's folder says of them. Patches are
// applied by another library than the webhook's own.

namespace compilecache::webhook::testing {

using nlohmann::json;

inline JsonDocument tree_of(const json& value) {
  auto tree = webhook::read_json(value.dump());
  if (!tree) throw std::runtime_error(tree.error().message);
  return std::move(*tree);
}

inline json to_json(const Patch& patch) { return json::parse(patch_text(patch)); }

inline json without_injection(const json& pod, const InjectionSettings& settings) {
  return pod.patch(to_json(strip_injection(tree_of(pod), settings).value()));
}

// The list of that name, or an empty one.
inline json items(const json& object, const char* name) {
  return object.is_object() ? object.value(name, json::array()) : json::array();
}

inline const json* named(const json& list, std::string_view name) {
  for (const json& item : list) {
    if (item.is_object() && item.value("name", "") == name) return &item;
  }
  return nullptr;
}

}  // namespace compilecache::webhook::testing
