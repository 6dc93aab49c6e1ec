#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.hpp"

// For .cpp files only: JSON that others wrote. How many bytes it may have who reads it has bounded.

namespace compilecache {

// Nested deeper than this is nothing of ours.
inline constexpr int kMaxJsonDepth = 16;
// Values and members of what is small: a manifest, an OCI index of one archive, a marker.
inline constexpr size_t kFewJsonValues = 10'000;

// Read through once, keeping nothing, before any of it is kept: a value takes up to a hundred times
// the bytes that it has as text. kCorrupt: it is not JSON, or nested too deeply; kTooLarge: it has
// more values than `max_values`, each member's name counted too.
Result<nlohmann::json> parse_json(std::string_view text, const std::string& what,
                                  size_t max_values = kFewJsonValues);

// The library's words for what is wrong: they quote what it read last, which may be long and no
// text at all.
std::string short_reason(std::string_view words);

// Members of an object; none when missing or of another type.
std::optional<std::string> string_member(const nlohmann::json& object, const char* key);
std::optional<uint64_t> number_member(const nlohmann::json& object, const char* key);

}  // namespace compilecache
