#include "operator/registry/token_claims.hpp"

#include <nlohmann/json.hpp>

#include "base/base64.hpp"
#include "operator/registry/es256.hpp"

namespace compilecache::controller {
namespace {

// The members stay in the order in which they are written.
using Json = nlohmann::ordered_json;

int64_t seconds_of(WallTime time) {
  return std::chrono::floor<std::chrono::seconds>(time.time_since_epoch()).count();
}

std::string dump(const Json& object) {
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string token_header(const std::string& leaf_der) {
  return dump(
      Json{{"typ", "JWT"}, {"alg", "ES256"}, {"x5c", Json::array({base64_encode(leaf_der)})}});
}

std::string token_payload(const TokenClaims& claims) {
  Json access = Json::array();
  for (const TokenAccess& one : claims.access) {
    access.push_back(Json{{"type", one.type}, {"name", one.repository}, {"actions", one.actions}});
  }
  // The audience is a text: distribution 2.8 knows no list of them.
  return dump(Json{{"iss", kTokenIssuer},
                   {"aud", kTokenService},
                   {"sub", claims.subject},
                   {"jti", claims.id},
                   {"iat", seconds_of(claims.issued)},
                   {"nbf", seconds_of(claims.issued - kTokenBackdate)},
                   {"exp", seconds_of(claims.issued + kTokenLife)},
                   {"access", std::move(access)}});
}

Result<std::string> sign_token(const TokenClaims& claims, const KeyPair& leaf) {
  const auto der = certificate_der(leaf.certificate);
  if (!der) return unexpected(der.error());
  const std::string text = base64url(token_header(*der)) + "." + base64url(token_payload(claims));
  const auto signature = sign_es256(leaf.key, text);
  if (!signature) return unexpected(signature.error());
  return text + "." + base64url(*signature);
}

}  // namespace compilecache::controller
