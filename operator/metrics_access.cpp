#include "operator/metrics_access.hpp"

#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "api/agent_api.hpp"
#include "base/log.hpp"

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

tl::unexpected<Error> unknown(const std::string& why) {
  return fail(ErrorCode::kUnauthorized,
              kChecking + why + "; send a token of a service account as Authorization: Bearer");
}

Result<json> access_review_of(const json& answer) {
  const json status = answer.value("status", json::object());
  if (!status.value("authenticated", false)) {
    const std::string why = status.value("error", "");
    return unknown("the API server does not accept the token" + (why.empty() ? "" : ": " + why));
  }
  const json user = status.value("user", json::object());
  json spec = {{"user", user.value("username", "")},
               {"nonResourceAttributes", {{"path", "/metrics"}, {"verb", "get"}}}};
  if (spec["user"] == "") return unknown("the token names no user");
  for (const char* name : {"uid", "groups", "extra"}) {
    if (user.contains(name)) spec[name] = user.at(name);
  }
  return json{{"apiVersion", "authorization.k8s.io/v1"},
              {"kind", "SubjectAccessReview"},
              {"metadata", json::object()},
              {"spec", spec}};
}

http::Response refusal(const Error& error) {
  http::Response response = http::text_response(api::http_status(error.code), error.message);
  if (response.status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  if (response.status == 503) response.headers.emplace_back("Retry-After", "2");
  return response;
}

}  // namespace

json identity_review(std::string_view token) {
  return {{"apiVersion", "authentication.k8s.io/v1"},
          {"kind", "TokenReview"},
          {"metadata", json::object()},
          {"spec", {{"token", std::string(token)}}}};
}

Result<json> access_review(const json& identity_answer) {
  try {
    return access_review_of(identity_answer);
  } catch (const json::exception& e) {
    return fail(ErrorCode::kInternal,
                std::string("reading the API server's TokenReview: ") + e.what());
  }
}

Status parse_access_review(const json& answer, const std::string& user) {
  try {
    if (answer.value("status", json::object()).value("allowed", false)) return {};
  } catch (const json::exception& e) {
    return fail(ErrorCode::kInternal,
                std::string("reading the API server's SubjectAccessReview: ") + e.what());
  }
  return fail(ErrorCode::kForbidden, kChecking + user + " may not get /metrics" + kHowTo);
}

Status MetricsAccess::ask(std::string_view token) const {
  const auto identity = create_(kube::resources::kTokenReviews, identity_review(token));
  if (!identity) return fail(ErrorCode::kUnavailable, kChecking + identity.error().message);
  const auto review = access_review(*identity);
  if (!review) return unexpected(review.error());
  const auto access = create_(kube::resources::kSubjectAccessReviews, *review);
  if (!access) return fail(ErrorCode::kUnavailable, kChecking + access.error().message);
  return parse_access_review(*access, review->at("spec").at("user").get<std::string>());
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
