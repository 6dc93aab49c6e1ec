#include "frameworks/factors.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

namespace compilecache::frameworks {
namespace {

using nlohmann::json;

constexpr size_t kLongestName = 64;
// Deeper values are not compared: comparing is recursive, and the file is the application's.
constexpr int kDeepest = 8;

json parse(std::string_view text) {
  return json::parse(
      text, [](int depth, json::parse_event_t, json&) { return depth <= kDeepest; }, false);
}

// What it calls a name goes into statuses and logs.
bool is_name(const std::string& text) {
  const auto fits = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '.' || c == '-';
  };
  return !text.empty() && text.size() <= kLongestName &&
         std::all_of(text.begin(), text.end(), fits);
}

void compare(const json& loaded, const json& made, bool inside, std::set<std::string>& names) {
  std::set<std::string> keys;
  for (const json* side : {&loaded, &made}) {
    for (const auto& [key, value] : side->items()) keys.insert(key);
  }
  for (const std::string& key : keys) {
    const json before = loaded.value(key, json());
    const json after = made.value(key, json());
    if (before == after) continue;
    if (!inside && before.is_object() && after.is_object()) {
      compare(before, after, true, names);
    } else if (is_name(key)) {
      names.insert(key);
    }
  }
}

}  // namespace

Result<std::vector<std::string>> differing_factors(std::string_view loaded, std::string_view made) {
  const json before = parse(loaded);
  const json after = parse(made);
  if (!before.is_object() || !after.is_object()) {
    return fail(ErrorCode::kInvalid, "comparing the factors of two keys: not a JSON object");
  }
  std::set<std::string> names;
  compare(before, after, false, names);
  return std::vector<std::string>(names.begin(), names.end());
}

}  // namespace compilecache::frameworks
