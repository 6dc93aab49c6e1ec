#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.hpp"

// Reads JSON that others wrote, within bounds. Include it in .cpp files only, since nlohmann's
// header is heavy. The caller bounds how many bytes the text has.

namespace compilecache {

// Nothing that we write is nested deeper than this.
inline constexpr int kMaxJsonDepth = 16;
// The most values and members of small documents: a manifest, an OCI index of one archive, a
// marker.
inline constexpr size_t kFewJsonValues = 10'000;

// The text is read once without keeping anything before a tree is built, because a value takes up
// to a hundred times as many bytes there as in the text. kCorrupt: it is not JSON, or is nested too
// deeply; kTooLarge: it has more values than `max_values`, where each member's name counts as one.
Result<nlohmann::json> parse_json(std::string_view text, const std::string& what,
                                  size_t max_values = kFewJsonValues);

// The library's message for an error, bounded and printable: it quotes what it read last, which may
// be long and no text at all.
std::string short_reason(std::string_view words);

// Members of an object; nothing when one is missing or of another type.
std::optional<std::string> string_member(const nlohmann::json& object, const char* key);
std::optional<uint64_t> number_member(const nlohmann::json& object, const char* key);

}  // namespace compilecache
