#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "operator/certificates/certificates.hpp"

// A token of the installation's own registry: a JSON Web Token, as distribution's token
// authentication wants it (ES256, the leaf's certificate in x5c).
//
//   const TokenClaims claims{.subject = "ml/web-1", .id = "9f...", .issued = clock.wall(),
//                            .access = {{"ml/transformer", {"pull"}}}};
//   const Result<std::string> token = sign_token(claims, leaf);
//
// Pure; thread-safe.

namespace compilecache::controller {

// As the registry's configuration says them (config/components/registry).
inline constexpr char kTokenIssuer[] = "compilecache";
inline constexpr char kTokenService[] = "registry";
// The registry checks that a token has not expired only when a request begins. It tolerates a clock
// skew of 60 s, so a replica's clock may be up to 6 minutes behind the registry's.
inline constexpr std::chrono::seconds kTokenLife{300};
// A replica's clock may be this far ahead of the registry's; as for AuthorityPolicy::backdate.
inline constexpr std::chrono::hours kTokenBackdate{1};

struct TokenAccess {
  std::string repository;            // "ml/transformer"
  std::vector<std::string> actions;  // "pull", "push", "delete"
  std::string type = "repository";   // "registry" for the registry's own resource "catalog"
  bool operator==(const TokenAccess&) const = default;
};

struct TokenClaims {
  std::string subject;  // who it is for, for the registry's log
  std::string id;       // of this token alone
  WallTime issued{};
  std::vector<TokenAccess> access;  // empty: it shows who somebody is, and opens nothing
};

// The two parts that are signed, as JSON. `leaf_der`: the certificate that the registry verifies
// the signature by.
std::string token_header(const std::string& leaf_der);
std::string token_payload(const TokenClaims& claims);

// "header.payload.signature", each in base64url. kInvalid when the leaf is no certificate with its
// P-256 key.
Result<std::string> sign_token(const TokenClaims& claims, const KeyPair& leaf);

}  // namespace compilecache::controller
