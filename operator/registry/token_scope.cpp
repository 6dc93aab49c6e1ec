#include "operator/registry/token_scope.hpp"

#include "base/strings.hpp"
#include "http/message.hpp"

namespace compilecache::controller {
namespace {

constexpr size_t kLongestNamespace = 63;
constexpr size_t kLongestCache = 63;

// A namespace's name, or with dots a CompileCache's.
bool is_name(std::string_view name, size_t longest, bool dots) {
  if (name.empty() || name.size() > longest) return false;
  for (const char c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
    if (!plain && !(dots && c == '.')) return false;
  }
  return true;
}

}  // namespace

std::optional<TokenScope> parse_scope(std::string_view scope) {
  constexpr std::string_view kType = "repository:";
  if (!scope.starts_with(kType)) return std::nullopt;
  scope.remove_prefix(kType.size());
  const size_t colon = scope.rfind(':');
  const size_t slash = scope.find('/');
  if (colon == std::string_view::npos || slash == std::string_view::npos || slash > colon) {
    return std::nullopt;
  }
  TokenScope parsed;
  parsed.ns = std::string(scope.substr(0, slash));
  parsed.cache = std::string(scope.substr(slash + 1, colon - slash - 1));
  if (!is_name(parsed.ns, kLongestNamespace, false) ||
      !is_name(parsed.cache, kLongestCache, true)) {
    return std::nullopt;
  }
  for (const std::string& action : split(std::string(scope.substr(colon + 1)), ',')) {
    parsed.pull = parsed.pull || action == "pull";
    parsed.push = parsed.push || action == "push";
  }
  return parsed;
}

std::vector<TokenScope> requested_scopes(std::string_view query) {
  constexpr std::string_view kName = "scope=";
  std::vector<TokenScope> scopes;
  for (const std::string& parameter : split(std::string(query), '&')) {
    if (!parameter.starts_with(kName)) continue;
    const auto value = http::percent_decode(std::string_view(parameter).substr(kName.size()), true);
    if (!value) continue;
    for (const std::string& one : split(*value, ' ')) {
      if (scopes.size() == kMostScopes) return scopes;
      if (auto scope = parse_scope(one)) scopes.push_back(std::move(*scope));
    }
  }
  return scopes;
}

}  // namespace compilecache::controller
