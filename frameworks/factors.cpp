#include "frameworks/factors.hpp"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <set>

#include "base/checked_json.hpp"
#include "base/sha256.hpp"
#include "base/strings.hpp"

namespace compilecache::frameworks {
namespace {

using nlohmann::json;

constexpr size_t kLongestName = 64;
// vLLM has 316 variables.
constexpr size_t kMostFactors = 1000;
// 64 bits: enough to tell two values apart.
constexpr size_t kDigits = 16;

// Only what passes this check goes into statuses and logs.
bool is_name(std::string_view text) {
  const auto fits = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '.' || c == '-';
  };
  return !text.empty() && text.size() <= kLongestName &&
         std::all_of(text.begin(), text.end(), fits);
}

std::string_view last_part(std::string_view path) { return path.substr(path.rfind('/') + 1); }

bool is_path(std::string_view path) {
  const size_t slash = path.find('/');
  return slash == path.npos ? is_name(path)
                            : is_name(path.substr(0, slash)) && is_name(path.substr(slash + 1));
}

bool is_digest(std::string_view text) {
  return text.size() == kDigits && std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return std::isxdigit(c) != 0;
         });
}

void add(Factors& factors, std::string_view key, const std::string& path, const json& value) {
  if (!is_path(path) || factors.digests.size() == kMostFactors) return;
  // The digest covers the name too, so that equal values of two variables do not look equal.
  const std::string text = path + "=" + value.dump(-1, ' ', false, json::error_handler_t::replace);
  factors.digests[path] = hmac_sha256_hex(key, text).substr(0, kDigits);
}

}  // namespace

Result<Factors> read_factors(std::string_view text, std::string_view key) {
  const auto object = parse_json(text, "the factors of a key");
  if (!object) return fail(ErrorCode::kInvalid, object.error().message);
  if (!object->is_object()) {
    return fail(ErrorCode::kInvalid, "reading the factors of a key: not a JSON object");
  }
  Factors factors{hmac_sha256_hex(key, "").substr(0, kDigits), {}};
  for (const auto& [name, value] : object->items()) {
    if (!value.is_object()) {
      add(factors, key, name, value);
      continue;
    }
    for (const auto& [inner, of_inner] : value.items()) {
      add(factors, key, name + "/" + inner, of_inner);
    }
  }
  return factors;
}

std::optional<std::vector<std::string>> differing_factors(const Factors& loaded,
                                                          const Factors& made) {
  if (loaded.key != made.key) return std::nullopt;
  std::set<std::string> names;
  for (const auto& [path, digest] : loaded.digests) {
    const auto other = made.digests.find(path);
    if (other != made.digests.end() && other->second != digest) names.emplace(last_part(path));
  }
  return std::vector<std::string>(names.begin(), names.end());
}

std::string dump(const Factors& factors) {
  std::string text = factors.key + "\n";
  for (const auto& [path, digest] : factors.digests) text += digest + " " + path + "\n";
  return text;
}

Result<Factors> parse_factors(std::string_view text) {
  Factors factors;
  for (const std::string& line : split(std::string(text), '\n')) {
    if (line.empty()) continue;
    if (factors.key.empty()) {
      factors.key = line;
      continue;
    }
    const std::string digest = line.substr(0, kDigits);
    const std::string path = line.size() > kDigits + 1 ? line.substr(kDigits + 1) : "";
    if (!is_digest(digest) || !is_path(path) || factors.digests.size() == kMostFactors) {
      return fail(ErrorCode::kInvalid, "reading noted factors of a key: they are damaged");
    }
    factors.digests[path] = digest;
  }
  if (!is_digest(factors.key)) {
    return fail(ErrorCode::kInvalid, "reading noted factors of a key: they are damaged");
  }
  return factors;
}

}  // namespace compilecache::frameworks
