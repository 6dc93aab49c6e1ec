#include "operator/metrics_access.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "operator/access_review.hpp"
#include "tests/unit/http/raw_socket.hpp"

namespace compilecache::controller {
namespace {

using nlohmann::json;
using std::chrono::seconds;

// An API server that knows one user's tokens.
struct Reviews {
  std::vector<json> asked;
  bool allowed = true;
  bool answers = true;

  MetricsAccess::Create create() {
    return [this](const kube::Resource& resource, const json& object) -> Result<json> {
      asked.push_back(object);
      if (!answers) return fail(ErrorCode::kTimeout, "no answer");
      if (resource.plural == "subjectaccessreviews")
        return json{{"status", {{"allowed", allowed}}}};
      const bool known = object.at("spec").at("token").get<std::string>().starts_with("known");
      return json{{"status",
                   {{"authenticated", known},
                    {"user",
                     {{"username", "system:serviceaccount:monitoring:prometheus"},
                      {"uid", "u1"},
                      {"groups", {"system:authenticated"}},
                      {"extra", {{"pod", {"p1"}}}}}}}}};
    };
  }
};

ErrorCode refused(const Status& status) {
  EXPECT_FALSE(status);
  return status ? ErrorCode::kInternal : status.error().code;
}

TEST(MetricsAccess, AsksWhoItIsAndWhetherThatOneMayGetThePath) {
  FakeClock clock;
  Reviews reviews;
  MetricsAccess access(reviews.create(), clock);
  EXPECT_TRUE(access.check("known", "10.0.0.7:1"));
  ASSERT_EQ(reviews.asked.size(), 2U);
  EXPECT_EQ(reviews.asked[0].at("spec"), (json{{"token", "known"}}));
  EXPECT_EQ(reviews.asked[1].at("spec"),
            (json{{"user", "system:serviceaccount:monitoring:prometheus"},
                  {"uid", "u1"},
                  {"groups", {"system:authenticated"}},
                  {"extra", {{"pod", {"p1"}}}},
                  {"nonResourceAttributes", {{"path", "/metrics"}, {"verb", "get"}}}}));
}

TEST(MetricsAccess, WhoMayNotIsToldWhatWouldHelp) {
  FakeClock clock;
  Reviews reviews;
  reviews.allowed = false;
  MetricsAccess access(reviews.create(), clock);
  const Status status = access.check("known", "10.0.0.7:1");
  EXPECT_EQ(refused(status), ErrorCode::kForbidden);
  EXPECT_NE(status.error().message.find("monitoring:prometheus may not get /metrics"),
            std::string::npos);
  EXPECT_NE(status.error().message.find("compilecache-metrics-reader"), std::string::npos);
  EXPECT_EQ(refused(access.check("", "10.0.0.7:1")), ErrorCode::kUnauthorized);
  EXPECT_EQ(refused(access.check("stranger", "10.0.0.7:1")), ErrorCode::kUnauthorized);
  EXPECT_EQ(refused(access.check(std::string(100'000, 'x'), "10.0.0.7:1")),
            ErrorCode::kUnauthorized);
}

TEST(MetricsAccess, ANoIsAskedAgainSoonAndAYesLater) {
  FakeClock clock;
  Reviews reviews;
  reviews.allowed = false;
  MetricsAccess access(reviews.create(), clock);
  EXPECT_FALSE(access.check("known", "10.0.0.7:1"));
  reviews.allowed = true;
  EXPECT_FALSE(access.check("known", "10.0.0.7:1"));
  EXPECT_EQ(reviews.asked.size(), 2U);
  clock.advance(seconds(11));
  EXPECT_TRUE(access.check("known", "10.0.0.7:1"));
  reviews.allowed = false;
  clock.advance(seconds(59));
  EXPECT_TRUE(access.check("known", "10.0.0.7:1"));
  clock.advance(seconds(2));
  EXPECT_FALSE(access.check("known", "10.0.0.7:1"));
}

TEST(MetricsAccess, TokensOfNoUseAreLimitedForEachCaller) {
  FakeClock clock;
  Reviews reviews;
  MetricsAccess access(reviews.create(), clock);
  Status last;
  for (int i = 0; i < 1'000; ++i) last = access.check("bad" + std::to_string(i), "10.0.0.7:1");
  EXPECT_EQ(refused(last), ErrorCode::kUnavailable);
  EXPECT_EQ(reviews.asked.size(), 100U);
  EXPECT_TRUE(access.check("known", "10.0.0.8:1"));
}

TEST(MetricsAccess, TheApiServersTroubleIsNotTheCallersFault) {
  FakeClock clock;
  Reviews reviews;
  reviews.answers = false;
  MetricsAccess access(reviews.create(), clock);
  for (int i = 0; i < 200; ++i) {
    EXPECT_EQ(refused(access.check("known", "10.0.0.7:1")), ErrorCode::kUnavailable);
  }
  reviews.answers = true;
  EXPECT_TRUE(access.check("known", "10.0.0.7:1"));
}

TEST(AccessReview, OddAnswersLetNobodyIn) {
  for (const char* odd : {R"({"status": {"authenticated": "yes"}})",
                          R"({"status": {"authenticated": true}})", "[1]", "{}"}) {
    EXPECT_FALSE(access_review(json::parse(odd), "resourceAttributes", json::object())) << odd;
  }
  EXPECT_FALSE(parse_access_review(json::parse(R"({"status": {"allowed": "yes"}})")));
  EXPECT_FALSE(parse_access_review(json::object()).value());
  EXPECT_FALSE(parse_access_review(json::parse("[1]")));
}

// The whole answer to one request.
std::string ask(uint16_t port, const std::string& method, const std::string& token) {
  http::testing::RawSocket socket(port);
  socket.send(method + " /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" +
              (token.empty() ? "" : "Authorization: Bearer " + token + "\r\n") + "\r\n");
  return socket.read_all();
}

TEST(MetricsEndpoint, ShowsTheMetricsToWhoeverMayReadThem) {
  FakeClock clock;
  Reviews reviews;
  Metrics metrics;
  metrics.webhook_request("injected", 0.1);
  MetricsEndpoint endpoint(metrics, reviews.create(), clock);
  endpoint.start();
  const auto server = *http::Server::start({.address = "127.0.0.1", .tls = false},
                                           [&](http::Request request, http::Responder to) {
                                             endpoint.handle(std::move(request), std::move(to));
                                           });
  const uint16_t port = server->port();
  const std::string shown = ask(port, "GET", "known");
  EXPECT_TRUE(shown.starts_with("HTTP/1.1 200")) << shown;
  EXPECT_NE(shown.find("compilecache_webhook_requests_total{reason=\"injected\"} 1"),
            std::string::npos);
  const std::string unknown = ask(port, "GET", "");
  EXPECT_TRUE(unknown.starts_with("HTTP/1.1 401")) << unknown;
  EXPECT_NE(unknown.find("WWW-Authenticate: Bearer"), std::string::npos);
  EXPECT_EQ(unknown.find("compilecache_"), std::string::npos);
  EXPECT_TRUE(ask(port, "DELETE", "known").starts_with("HTTP/1.1 405"));
  reviews.allowed = false;
  EXPECT_TRUE(ask(port, "GET", "known, another").starts_with("HTTP/1.1 403"));
  endpoint.stop();
  EXPECT_TRUE(ask(port, "GET", "known").starts_with("HTTP/1.1 503"));
  server->stop(seconds(5));
}

}  // namespace
}  // namespace compilecache::controller
