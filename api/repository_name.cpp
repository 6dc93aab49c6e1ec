#include "api/repository_name.hpp"

#include <algorithm>

#include "base/strings.hpp"

namespace compilecache::api {
namespace {

constexpr char kExample[] = "; write the registry's host and a path, like harbor.example.com/ml";

bool is_lower_or_digit(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// A part of a path: letters and digits, between them one '.', one or two '_', or any number of '-'.
bool is_path_part(std::string_view part) {
  if (part.empty() || !is_lower_or_digit(part.front()) || !is_lower_or_digit(part.back())) {
    return false;
  }
  for (size_t at = 0; at < part.size();) {
    size_t end = at;
    while (end < part.size() && !is_lower_or_digit(part[end])) ++end;
    const std::string_view between = part.substr(at, end - at);
    const bool dashes = between.find_first_not_of('-') == std::string_view::npos;
    if (!dashes && between != "." && between != "_" && between != "__") return false;
    at = end + 1;
  }
  return true;
}

bool is_port(std::string_view text) {
  return !text.empty() && text.size() <= 5 && std::all_of(text.begin(), text.end(), is_digit);
}

// A name, an IPv4 address or an IPv6 address in brackets. Without a dot, a port or brackets it
// would be a path on a registry that nobody named, as docker reads it.
bool is_host(std::string_view host) {
  if (host.starts_with('[')) {
    const size_t close = host.find(']');
    if (close == std::string_view::npos || close < 3) return false;
    const std::string_view rest = host.substr(close + 1);
    return host.substr(1, close - 1).find_first_not_of("0123456789abcdef:.") ==
               std::string_view::npos &&
           (rest.empty() || (rest.front() == ':' && is_port(rest.substr(1))));
  }
  const size_t colon = host.find(':');
  const std::string_view name = host.substr(0, colon);
  if (colon != std::string_view::npos && !is_port(host.substr(colon + 1))) return false;
  const bool has_dot = name.find('.') != std::string_view::npos;
  if (!has_dot && colon == std::string_view::npos && name != "localhost") return false;
  return !name.empty() && is_lower_or_digit(name.front()) && is_lower_or_digit(name.back()) &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return is_lower_or_digit(c) || c == '-' || c == '.'; });
}

}  // namespace

Result<RepositoryName> parse_repository(std::string_view text) {
  const auto refuse = [](const std::string& why) {
    return fail(ErrorCode::kInvalid, why + kExample);
  };
  if (text.find("://") != std::string_view::npos) return refuse("must not have a scheme");
  if (text.find('@') != std::string_view::npos) return refuse("must not have a digest");
  if (std::any_of(text.begin(), text.end(), [](char c) { return c >= 'A' && c <= 'Z'; })) {
    return refuse("must be in lower case");
  }
  const size_t slash = text.find('/');
  if (slash == std::string_view::npos) return refuse("must have a path below the registry's host");
  const std::string_view host = text.substr(0, slash);
  const std::string_view path = text.substr(slash + 1);
  if (path.find(':') != std::string_view::npos) return refuse("must not have a tag");
  if (!is_host(host)) return refuse("must begin with the registry's host");
  const auto parts = split(path, '/');
  const bool accepted = !path.empty() && !path.ends_with('/') &&
                        std::all_of(parts.begin(), parts.end(), is_path_part);
  if (!accepted) return refuse("has a path that registries refuse");
  return RepositoryName{std::string(host), std::string(path)};
}

}  // namespace compilecache::api
