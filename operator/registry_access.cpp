#include "operator/registry_access.hpp"

#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "api/agent_api.hpp"
#include "api/names.hpp"
#include "base/base64.hpp"
#include "base/log.hpp"
#include "base/time_format.hpp"
#include "operator/access_review.hpp"
#include "operator/registry/registry_tokens.hpp"

namespace compilecache::controller {
namespace {

using nlohmann::json;
using std::chrono::seconds;

constexpr seconds kAllowedFor{60};
constexpr seconds kRefusedFor{10};
constexpr size_t kMaxPeople = 1'000;
constexpr size_t kLongestPassword = 16U << 10;
constexpr char kAsking[] = "checking who asks for a token of the registry: ";
constexpr char kLogIn[] =
    "; log in with any name and a token of the cluster as password, as `kubectl create token NAME` "
    "gives it";

tl::unexpected<Error> unidentified(const std::string& why) {
  return fail(ErrorCode::kUnauthorized, kAsking + why + kLogIn);
}

// The password of "Authorization: Basic", or the Bearer token.
std::string shown_token(const http::Request& request) {
  if (const auto bearer = request.bearer_token()) return std::string(*bearer);
  constexpr std::string_view kBasic = "Basic ";
  const auto header = request.header("Authorization");
  if (!header || !header->starts_with(kBasic)) return "";
  const std::string both = base64_decode(header->substr(kBasic.size())).value_or("");
  const size_t colon = both.find(':');
  return colon == std::string::npos ? "" : both.substr(colon + 1);
}

// As registries say what is wrong, which their clients show.
http::Response registry_error(int status, const char* code, const std::string& message) {
  http::Response response;
  response.status = status;
  response.body = json{{"errors", json::array({{{"code", code}, {"message", message}}})}}.dump(
      -1, ' ', false, json::error_handler_t::replace);
  if (status == 401) {
    response.headers.emplace_back("WWW-Authenticate", "Basic realm=\"compile-cache registry\"");
  }
  if (status == 503) response.headers.emplace_back("Retry-After", "2");
  return response;
}

http::Response registry_error(const Error& error) {
  const int status = api::http_status(error.code);
  return registry_error(status, status == 401 ? "UNAUTHORIZED" : "UNAVAILABLE", error.message);
}

}  // namespace

RegistryAccess::RegistryAccess(Create create, const Clock& clock)
    : create_(std::move(create)),
      allowance_(clock),
      known_(kMaxPeople, clock),
      allowed_(kMaxPeople * kMostScopes, clock) {}

Result<json> RegistryAccess::identify(std::string_view token, std::string_view peer) {
  if (token.empty()) return unidentified("there is no token");
  if (token.size() > kLongestPassword) return unidentified("the token is too long");
  if (auto known = known_.find(token)) return *std::move(known);
  if (!allowance_.take(peer)) {
    return fail(ErrorCode::kUnavailable, std::string(kAsking) + "too many tokens of no use from " +
                                             std::string(peer) + "; try again in a while");
  }
  auto identity = create_(kube::resources::kTokenReviews, identity_review(token));
  if (!identity) {
    allowance_.give_back(peer);
    return fail(ErrorCode::kUnavailable, kAsking + identity.error().message);
  }
  const auto accepted = access_review(*identity, "resourceAttributes", json::object());
  if (!accepted) {
    const Error& error = accepted.error();
    Result<json> no = fail(error.code, kAsking + error.message + kLogIn);
    known_.remember(token, no, kRefusedFor);
    return no;
  }
  allowance_.give_back(peer);
  known_.remember(token, *identity, kAllowedFor);
  return identity;
}

Result<bool> RegistryAccess::may(std::string_view token, const json& identity, const char* verb,
                                 const std::string& ns) {
  const std::string question = std::string(token) + "\n" + verb + "\n" + ns;
  if (const auto known = allowed_.find(question)) return *known;
  const auto review = access_review(identity, "resourceAttributes",
                                    {{"namespace", ns},
                                     {"verb", verb},
                                     {"group", api::kGroup},
                                     {"resource", "compilecachearchives"}});
  if (!review) return unexpected(review.error());
  const auto answer = create_(kube::resources::kSubjectAccessReviews, *review);
  if (!answer) return fail(ErrorCode::kUnavailable, kAsking + answer.error().message);
  const auto allowed = parse_access_review(*answer);
  if (allowed) allowed_.remember(question, *allowed, *allowed ? kAllowedFor : kRefusedFor);
  return allowed;
}

Result<RegistryAccess::Granted> RegistryAccess::grant(std::string_view token,
                                                      const std::vector<TokenScope>& scopes,
                                                      std::string_view peer) {
  const auto identity = identify(token, peer);
  if (!identity) return unexpected(identity.error());
  Granted granted{.user = identity->at("status").at("user").at("username")};
  for (const TokenScope& scope : scopes) {
    const auto pull = may(token, *identity, "get", scope.ns);
    if (!pull) return unexpected(pull.error());
    if (!*pull) continue;
    TokenAccess access{own_repository(scope.ns, scope.cache), {"pull"}};
    if (scope.push) {
      const auto push = may(token, *identity, "create", scope.ns);
      if (!push) return unexpected(push.error());
      if (*push) access.actions.emplace_back("push");
    }
    granted.access.push_back(std::move(access));
  }
  return granted;
}

RegistryTokenEndpoint::RegistryTokenEndpoint(const TokenMinter& minter,
                                             RegistryAccess::Create create, const Clock& clock)
    : minter_(minter), access_(std::move(create), clock), threads_(2, clock) {}

void RegistryTokenEndpoint::handle(http::Request request, http::Responder respond) {
  const auto asked = std::make_shared<http::Request>(std::move(request));
  if (!threads_.add(false, [this, asked, respond] { respond(answer(*asked)); })) {
    respond(registry_error({ErrorCode::kUnavailable, "too many are asking for tokens; try again"}));
  }
}

http::Response RegistryTokenEndpoint::answer(const http::Request& request) {
  if (request.method != "GET") {
    return registry_error(405, "UNSUPPORTED", request.method + " is not for " + request.path);
  }
  const auto service = request.query_parameter("service");
  if (service && *service != kTokenService) {
    return registry_error(
        400, "UNSUPPORTED",
        "there are tokens for the service \"" + std::string(kTokenService) + "\" alone");
  }
  auto granted = access_.grant(shown_token(request), requested_scopes(request.query), request.peer);
  if (!granted) return registry_error(granted.error());
  const auto minted = minter_.mint(granted->user, std::move(granted->access));
  if (!minted) return registry_error(minted.error());
  log_debug("minted a token for the registry", {{"user", granted->user}, {"peer", request.peer}});
  http::Response response;
  response.body = json{{"token", minted->token},
                       {"access_token", minted->token},
                       {"expires_in", minted->life.count()},
                       {"issued_at", format_time(minted->issued)}}
                      .dump();
  response.headers.emplace_back("Cache-Control", "no-store");
  return response;
}

}  // namespace compilecache::controller
