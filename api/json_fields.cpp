#include "api/json_fields.hpp"

namespace compilecache::api {

Result<nlohmann::json> parse_json(const std::string& text, const std::string& what) {
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception& error) {
    return fail(ErrorCode::kInvalid, "reading " + what + " as JSON: " + error.what());
  }
}

}  // namespace compilecache::api
