#include "archive/checked_json.hpp"

#include <stdexcept>

namespace compilecache::archive {
namespace {
constexpr int kMaxDepth = 16;
}

Result<nlohmann::json> parse_json(std::string_view text, const std::string& what) {
  const auto shallow = [](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    if (depth > kMaxDepth) throw std::length_error("nested too deeply");
    return true;
  };
  try {
    return nlohmann::json::parse(text, shallow);
  } catch (const std::exception& problem) {
    return fail(ErrorCode::kCorrupt, what + " is not usable JSON: " + problem.what());
  }
}

std::optional<std::string> string_member(const nlohmann::json& object, const char* key) {
  if (!object.is_object()) return std::nullopt;
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string()) return std::nullopt;
  return found->get<std::string>();
}

std::optional<uint64_t> number_member(const nlohmann::json& object, const char* key) {
  if (!object.is_object()) return std::nullopt;
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_unsigned()) return std::nullopt;
  return found->get<uint64_t>();
}

}  // namespace compilecache::archive
