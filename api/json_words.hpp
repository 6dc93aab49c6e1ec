#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "api/words.hpp"

// Enumerations with words as JSON: the word. Without this header nlohmann writes them as numbers.
// Internal to api/.

template <compilecache::api::Worded Enum>
struct nlohmann::adl_serializer<Enum> {
  static void to_json(json& to, Enum value) { to = compilecache::api::to_string(value); }
  static void from_json(const json& from, Enum& value) {
    value = compilecache::api::parse_word<Enum>(from.get_ref<const std::string&>())
                .value_or(compilecache::api::kUnknownMeans<Enum>);
  }
};

// Nothing is the empty word, and so is a word that is not known.
template <compilecache::api::Worded Enum>
struct nlohmann::adl_serializer<std::optional<Enum>> {
  static void to_json(json& to, const std::optional<Enum>& value) {
    to = compilecache::api::to_string(value);
  }
  static void from_json(const json& from, std::optional<Enum>& value) {
    value = compilecache::api::parse_word<Enum>(from.get_ref<const std::string&>());
  }
};
