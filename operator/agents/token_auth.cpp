#include "operator/agents/token_auth.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "api/names.hpp"

namespace compilecache::controller {
namespace {

using nlohmann::json;

constexpr size_t kMaxKnown = 50'000;
// Tokens of service accounts are one or two kilobytes.
constexpr size_t kMaxToken = 16U << 10;

std::string extra(const json& user, const char* name) {
  const json values = user.value("extra", json::object()).value(name, json::array());
  return !values.empty() && values[0].is_string() ? values[0].get<std::string>() : "";
}

tl::unexpected<Error> refuse(const std::string& why) {
  return fail(ErrorCode::kUnauthorized,
              "checking the caller's token: " + why +
                  "; agents use the token that is projected into their pod for the audience " +
                  api::kTokenAudience);
}

Result<TokenIdentity> identity_of(const json& answer) {
  const json status = answer.value("status", json::object());
  if (!status.value("authenticated", false)) {
    const std::string why = status.value("error", "");
    return refuse("the API server does not accept it" + (why.empty() ? "" : ": " + why));
  }
  bool ours = false;
  for (const json& audience : status.value("audiences", json::array())) {
    ours = ours || audience == api::kTokenAudience;
  }
  if (!ours) return refuse("it is for another audience");

  const json user = status.value("user", json::object());
  TokenIdentity identity;
  constexpr std::string_view kPrefix = "system:serviceaccount:";
  std::string name = user.value("username", "");
  if (!name.starts_with(kPrefix)) return refuse("it is no service account's");
  name.erase(0, kPrefix.size());
  const size_t colon = name.find(':');
  if (colon == std::string::npos) return refuse("it is no service account's");
  identity.ns = name.substr(0, colon);
  identity.service_account = name.substr(colon + 1);
  identity.pod = extra(user, "authentication.kubernetes.io/pod-name");
  identity.pod_uid = extra(user, "authentication.kubernetes.io/pod-uid");
  identity.node = extra(user, "authentication.kubernetes.io/node-name");
  if (identity.pod.empty() || identity.pod_uid.empty()) return refuse("it is bound to no pod");
  return identity;
}

}  // namespace

json token_review(std::string_view token) {
  return {{"apiVersion", "authentication.k8s.io/v1"},
          {"kind", "TokenReview"},
          {"metadata", json::object()},
          {"spec", {{"token", std::string(token)}, {"audiences", {api::kTokenAudience}}}}};
}

Result<TokenIdentity> parse_token_review(const json& answer) {
  try {
    return identity_of(answer);
  } catch (const json::exception& e) {
    return fail(ErrorCode::kInternal,
                std::string("reading the API server's TokenReview: ") + e.what());
  }
}

TokenAuth::TokenAuth(Review review, std::chrono::milliseconds believe_for, const Clock& clock)
    : review_(std::move(review)),
      believe_for_(believe_for),
      known_(kMaxKnown, clock),
      allowance_(clock) {}

Result<TokenIdentity> TokenAuth::identify(std::string_view token, std::string_view peer) {
  if (token.empty()) return refuse("there is none");
  if (token.size() > kMaxToken) return refuse("it is too long");
  if (auto known = known_.find(token)) return *std::move(known);
  if (!allowance_.take(peer)) {
    return fail(ErrorCode::kUnavailable,
                "checking the caller's token: too many bad ones came from " +
                    std::string(peer.substr(0, peer.rfind(':'))) + "; try again in a while");
  }
  const auto answer = review_(token_review(token));
  if (!answer) {
    allowance_.give_back(peer);
    // Not the caller's fault, so never kUnauthorized: it shall come back.
    return fail(ErrorCode::kUnavailable,
                "checking the caller's token: " + answer.error().message + "; try again");
  }
  auto identity = parse_token_review(*answer);
  if (identity) allowance_.give_back(peer);
  known_.remember(token, identity, identity ? believe_for_ : believe_for_ / 10);
  return identity;
}

}  // namespace compilecache::controller
