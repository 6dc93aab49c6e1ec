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

// Serves the metrics only to those who may read them (--authorize-metrics): over HTTPS, with a
// token that the API server knows (TokenReview) of a user who may `get` the path /metrics
// (SubjectAccessReview), as the endpoints of Kubernetes' own components do.
//
//   MetricsEndpoint endpoint(metrics, [&](const auto& resource, const auto& object) {
//     return client.create(resource, object);
//   }, clock);
//   endpoint.start();
//   endpoint.handle(std::move(request), std::move(respond));  // GET /metrics, on any replica
//   endpoint.stop();

namespace compilecache::controller {

// Checks whether the holder of a token may read the metrics. A yes is cached for a minute, a no for
// ten seconds. Thread-safe; check() blocks on the API server.
class MetricsAccess {
 public:
  using Create =
      std::function<Result<nlohmann::json>(const kube::Resource&, const nlohmann::json& object)>;

  MetricsAccess(Create create, const Clock& clock);

  // kUnauthorized, kForbidden (names the user, and what would help), or kUnavailable when the API
  // server does not answer or `peer` (an address with its port) has shown too many tokens that were
  // of no use.
  Status check(std::string_view token, std::string_view peer);

 private:
  Status ask(std::string_view token) const;

  const Create create_;
  CallerAllowance allowance_;
  TokenVerdicts<Status> known_;
};

// Answers on threads of its own, since checks block on the API server. Thread-safe; all parts must
// outlive it.
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

// The answer with all metrics, in Prometheus' text format.
http::Response metrics_response(const Metrics& metrics);

}  // namespace compilecache::controller
