#include "operator/metrics_access.hpp"

#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "api/agent_api.hpp"
#include "base/log.hpp"
#include "operator/access_review.hpp"

namespace compilecache::controller {
namespace {

using nlohmann::json;
using std::chrono::seconds;

// A yes is cached as by Kubernetes' own components; a no is checked again soon, so that a new role
// takes effect.
constexpr seconds kBelieveYes{60};
constexpr seconds kBelieveNo{10};
constexpr size_t kMaxScrapers = 1'000;
constexpr size_t kLongestToken = 16U << 10;
constexpr char kChecking[] = "checking who reads the metrics: ";
constexpr char kHowTo[] =
    "; bind the service account to the ClusterRole compilecache-metrics-reader";

constexpr char kSendOne[] = "; send a token of a service account as Authorization: Bearer";

tl::unexpected<Error> unknown(const std::string& why) {
  return fail(ErrorCode::kUnauthorized, kChecking + why + kSendOne);
}

http::Response refusal(const Error& error) {
  http::Response response = http::text_response(api::http_status(error.code), error.message);
  if (response.status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  if (response.status == 503) response.headers.emplace_back("Retry-After", "2");
  return response;
}

}  // namespace

Status MetricsAccess::ask(std::string_view token) const {
  const auto identity = create_(kube::resources::kTokenReviews, identity_review(token));
  if (!identity) return fail(ErrorCode::kUnavailable, kChecking + identity.error().message);
  const auto review =
      access_review(*identity, "nonResourceAttributes", {{"path", "/metrics"}, {"verb", "get"}});
  if (!review) return fail(review.error().code, kChecking + review.error().message + kSendOne);
  const auto access = create_(kube::resources::kSubjectAccessReviews, *review);
  if (!access) return fail(ErrorCode::kUnavailable, kChecking + access.error().message);
  const auto may = parse_access_review(*access);
  if (!may) return unexpected(may.error());
  if (*may) return {};
  const std::string user = review->at("spec").at("user");
  return fail(ErrorCode::kForbidden, kChecking + user + " may not get /metrics" + kHowTo);
}

MetricsAccess::MetricsAccess(Create create, const Clock& clock)
    : create_(std::move(create)), allowance_(clock), known_(kMaxScrapers, clock) {}

Status MetricsAccess::check(std::string_view token, std::string_view peer) {
  if (token.empty()) return unknown("there is no token");
  if (token.size() > kLongestToken) return unknown("the token is too long");
  if (auto known = known_.find(token)) return *std::move(known);
  if (!allowance_.take(peer)) {
    return fail(ErrorCode::kUnavailable, std::string(kChecking) +
                                             "too many tokens of no use from " + std::string(peer) +
                                             "; try again in a while");
  }
  const Status verdict = ask(token);
  const bool unanswered = !verdict && verdict.error().code == ErrorCode::kUnavailable;
  if (verdict || unanswered) allowance_.give_back(peer);
  if (!unanswered) known_.remember(token, verdict, verdict ? kBelieveYes : kBelieveNo);
  return verdict;
}

MetricsEndpoint::MetricsEndpoint(const Metrics& metrics, MetricsAccess::Create create,
                                 const Clock& clock)
    : metrics_(metrics), access_(std::move(create), clock), threads_(2, clock) {}

void MetricsEndpoint::handle(http::Request request, http::Responder respond) {
  const auto asked = std::make_shared<http::Request>(std::move(request));
  if (!threads_.add(false, [this, asked, respond] { respond(answer(*asked)); })) {
    respond(refusal({ErrorCode::kUnavailable, "too many are asking for the metrics; try again"}));
  }
}

http::Response MetricsEndpoint::answer(const http::Request& request) {
  if (request.method != "GET") {
    return http::text_response(405, request.method + " is not for " + request.path);
  }
  const Status allowed = access_.check(request.bearer_token().value_or(""), request.peer);
  if (!allowed) {
    log_debug("the metrics are not shown",
              {{"peer", request.peer}, {"why", allowed.error().message}});
    return refusal(allowed.error());
  }
  return metrics_response(metrics_);
}

http::Response metrics_response(const Metrics& metrics) {
  return {.status = 200,
          .body = metrics.text(),
          .content_type = "text/plain; version=0.0.4; charset=utf-8"};
}

}  // namespace compilecache::controller
