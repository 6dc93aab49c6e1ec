#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "http/message.hpp"
#include "http/server.hpp"
#include "kube/resource.hpp"
#include "operator/agents/caller_allowance.hpp"
#include "operator/agents/token_verdicts.hpp"
#include "operator/metrics/metrics.hpp"
#include "operator/review_pool.hpp"

// The metrics for those alone who may read them (--authorize-metrics): over HTTPS, to whoever shows
// a token that the API server knows (TokenReview) and whose user may `get` the path /metrics
// (SubjectAccessReview), as the endpoints of Kubernetes' own components ask for.
//
//   MetricsEndpoint endpoint(metrics, [&](const auto& resource, const auto& object) {
//     return client.create(resource, object);
//   }, clock);
//   endpoint.start();
//   endpoint.handle(std::move(request), std::move(respond));  // GET /metrics, on any replica
//   endpoint.stop();

namespace compilecache::controller {

// Pure. What is asked of the API server, and what its answers mean.
nlohmann::json identity_review(std::string_view token);
// The access review of that identity; kUnauthorized when there is none.
Result<nlohmann::json> access_review(const nlohmann::json& identity_answer);
// kForbidden says who may not, and what would let them.
Status parse_access_review(const nlohmann::json& answer, const std::string& user);

// Whether the holder of a token may read the metrics. A yes is believed for a minute, a no for ten
// seconds. Thread-safe; check() waits for the API server.
class MetricsAccess {
 public:
  using Create =
      std::function<Result<nlohmann::json>(const kube::Resource&, const nlohmann::json& object)>;

  MetricsAccess(Create create, const Clock& clock);

  // kUnauthorized, kForbidden, or kUnavailable when the API server does not answer or `peer` (an
  // address with its port) has shown too many tokens that were of no use.
  Status check(std::string_view token, std::string_view peer);

 private:
  Status ask(std::string_view token) const;

  const Create create_;
  CallerAllowance allowance_;
  TokenVerdicts<Status> known_;
};

// Answers on threads of its own, since the API server is asked. Thread-safe; all parts must outlive
// it.
class MetricsEndpoint {
 public:
  MetricsEndpoint(const Metrics& metrics, MetricsAccess::Create create, const Clock& clock);

  void start() { threads_.start(); }
  void stop() { threads_.stop(); }
  void handle(http::Request request, http::Responder respond);

 private:
  [[nodiscard]] http::Response answer(const http::Request& request);

  const Metrics& metrics_;
  MetricsAccess access_;
  ReviewPool threads_;  // last: its threads use all of the above
};

// The exposition, as Prometheus reads it.
http::Response metrics_response(const Metrics& metrics);

}  // namespace compilecache::controller
