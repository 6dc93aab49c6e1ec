#pragma once

#include <chrono>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "operator/agents/caller_allowance.hpp"
#include "operator/agents/token_verdicts.hpp"

// Finds out who a caller of the agent API is: the API server checks its projected token for our
// audience.
//
//   TokenAuth auth(
//       [&](const auto& review) { return client.create(kube::resources::kTokenReviews, review); },
//       settings.token_cache, clock);
//   auto identity = auth.identify(bearer_token, peer);
//   if (!identity) ...                               // kUnauthorized, or why the review failed
//
// Answers are cached for a while by the token's hash, refusals for a tenth of that time, so that a
// loop with a bad token costs the API server little. A caller that sends one new bad token after
// another is refused for a while; good tokens do not count. Thread-safe.

namespace compilecache::controller {

// Only a token that is bound to a pod names one, and only such a token is accepted. The caller
// checks that the pod is alive and injected.
struct TokenIdentity {
  std::string ns, service_account;
  std::string pod, pod_uid;
  std::string node;  // empty: not scheduled when the token was made, or an old API server
};

// The object to create, and what the API server made of it. kUnauthorized says why.
nlohmann::json token_review(std::string_view token);
Result<TokenIdentity> parse_token_review(const nlohmann::json& answer);

class TokenAuth {
 public:
  using Review = std::function<Result<nlohmann::json>(const nlohmann::json& review)>;

  TokenAuth(Review review, std::chrono::milliseconds believe_for, const Clock& clock);
  // `peer`: the caller's address, "10.0.0.7:4711" or "[fd00::7]:4711", which is what is limited.
  // kUnavailable when it has shown too many bad tokens lately.
  Result<TokenIdentity> identify(std::string_view token, std::string_view peer = {});

 private:
  const Review review_;
  const std::chrono::milliseconds believe_for_;
  TokenVerdicts<Result<TokenIdentity>> known_;
  CallerAllowance allowance_;
};

}  // namespace compilecache::controller
