#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

// What a registry's client asks for at the `realm`: "repository:ml/transformer:pull,push", several
// of them in one query.
//
//   const std::vector<TokenScope> scopes = requested_scopes(request.query);
//   // scopes.front().ns is "ml"
//
// What is no repository of ours (other types, other depths) is left out: nothing is granted for it.
// Pure.

namespace compilecache::controller {

struct TokenScope {
  std::string ns, cache;
  bool pull = false, push = false;
  bool operator==(const TokenScope&) const = default;
};

std::optional<TokenScope> parse_scope(std::string_view scope);

// Of a request's query, not decoded. At most kMostScopes; more are left out.
inline constexpr size_t kMostScopes = 16;
std::vector<TokenScope> requested_scopes(std::string_view query);

}  // namespace compilecache::controller
