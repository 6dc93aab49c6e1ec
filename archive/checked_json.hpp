#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.hpp"

// For .cpp files only: JSON that others wrote.

namespace compilecache::archive {

// kCorrupt when it is not JSON, or nested deeper than anything of ours.
Result<nlohmann::json> parse_json(std::string_view text, const std::string& what);

// Members of an object; none when missing or of another type.
std::optional<std::string> string_member(const nlohmann::json& object, const char* key);
std::optional<uint64_t> number_member(const nlohmann::json& object, const char* key);

}  // namespace compilecache::archive
