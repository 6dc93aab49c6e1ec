#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <list>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <vector>

#include "http/server.hpp"
#include "kube/cpprest_transport.hpp"
#include "operator/webhook_service.hpp"
#include "tests/support/fake_apiserver.hpp"
#include "tests/support/soon.hpp"
#include "tests/unit/http/raw_socket.hpp"
#include "tests/unit/http/tls_exchange.hpp"
#include "tests/unit/webhook/golden_case.hpp"

// Anything that comes over a connection gets an answer that blocks no pod. It is an AdmissionReview
// that allows, or a status other than 2xx, which API servers take for a failed call (failurePolicy
// Ignore).

namespace compilecache::controller {
namespace {

using compilecache::testing::soon;
using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using webhook::testing::GoldenCase;

class WebhookBytes : public ::testing::Test {
 protected:
  WebhookBytes() {
    caches_.replace({{golden_.cache->metadata.key(),
                      std::make_shared<const api::CompileCache>(*golden_.cache)}});
    kube::Config config;
    config.server = api_server_.url();
    service_.emplace(kube::Client(*kube::make_transport(config)), caches_, golden_.settings,
                     events_, metrics_, SystemClock::instance());
    service_->start();
    EXPECT_TRUE(soon([&] { return service_->synced(); }));
    server_ = *http::Server::start({.address = "127.0.0.1", .tls = false},
                                   [this](http::Request request, http::Responder to) {
                                     service_->handle(std::move(request), std::move(to));
                                   });
  }
  ~WebhookBytes() override {
    server_->stop(std::chrono::seconds(5));
    service_->stop();
  }

  std::string review() const { return review_of(golden_.pod.dump()); }
  static std::string review_of(const std::string& pod) {
    return R"({"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"705ab4f5",)"
           R"("kind":{"group":"","version":"v1","kind":"Pod"},"operation":"CREATE","namespace":"ml",)"
           R"("object":)" +
           pod + "}}";
  }

  static std::string post(const std::string& body, const std::string& more_headers = "") {
    return "POST /mutate?timeout=3s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + more_headers +
           "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  }

  // All that comes back until the server closes.
  std::string send(const std::string& bytes) const {
    http::testing::RawSocket socket(server_->port());
    socket.send(bytes);
    return socket.read_all();
  }

  // The response of an AdmissionReview that allows; null for anything else.
  static json allowed(const std::string& answer) {
    if (answer.rfind("HTTP/1.1 200 OK\r\n", 0) != 0) return nullptr;
    const json review = json::parse(answer.substr(answer.find("\r\n\r\n")), nullptr, false);
    if (!review.is_object() || review.value("kind", "") != "AdmissionReview") return nullptr;
    return review.at("response").value("allowed", false) ? review.at("response") : json();
  }

  // The response to a review whose CompileCache is created while it waits.
  json response_where_it_comes_later(const std::shared_ptr<const api::CompileCache>& cache) {
    std::string review_with_time = post(review());
    review_with_time.replace(review_with_time.find("timeout=3s"), 10, "timeout=10s");
    http::testing::RawSocket socket(server_->port());
    socket.send(review_with_time);
    // One that does not wait is answered by then.
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    caches_.upsert(cache->metadata.key(), cache);
    return allowed(socket.read_all());
  }

  void expect_still_injecting() const {
    EXPECT_TRUE(allowed(send(post(review()))).contains("patch"));
  }

  struct Events : kube::EventSink {
    void record(const kube::EventRecord& record) override {
      const std::lock_guard lock(mutex);
      records.push_back(record);
    }
    std::mutex mutex;
    std::vector<kube::EventRecord> records;
  };

  const GoldenCase golden_ = webhook::testing::load_golden_case("deployment");
  testing::FakeApiServer api_server_;
  kube::Store<api::CompileCache> caches_;
  Events events_;
  Metrics metrics_;
  std::optional<WebhookService> service_;
  std::unique_ptr<http::Server> server_;
};

TEST_F(WebhookBytes, APodWaitsForTheCompileCacheThatIsAppliedWithIt) {
  const auto cache = caches_.get(golden_.cache->metadata.key());
  caches_.erase(golden_.cache->metadata.key(), cache);
  EXPECT_TRUE(response_where_it_comes_later(cache).contains("patch"));
}

TEST_F(WebhookBytes, ALargePodDoesNotWaitAndHoldsNoMemory) {
  const auto cache = caches_.get(golden_.cache->metadata.key());
  caches_.erase(golden_.cache->metadata.key(), cache);
  json large = json::parse(golden_.pod.dump());
  large["metadata"]["annotations"]["large"] = std::string(70'000, 'x');
  EXPECT_FALSE(allowed(send(post(review_of(large.dump())))).contains("patch"));
  // The next one waits, which it would not after one that waited for nothing.
  EXPECT_TRUE(response_where_it_comes_later(cache).contains("patch"));
}

TEST_F(WebhookBytes, APodWhoseCompileCacheNeverComesIsAllowedAndTheNextDoesNotWait) {
  caches_.erase(golden_.cache->metadata.key(), nullptr);
  for (int i = 0; i < 2; ++i) {
    const json response = allowed(send(post(review())));
    ASSERT_FALSE(response.is_null());
    EXPECT_FALSE(response.contains("patch"));
    EXPECT_THAT(response.at("warnings").at(0), HasSubstr("cache_not_found"));
  }
}

TEST_F(WebhookBytes, WhateverIsPostedIsAllowedAndNotPatched) {
  const std::string whole = review();
  const auto replaced = [&](const std::string& what, const std::string& by) {
    std::string body = whole;
    body.replace(body.find(what), what.size(), by);
    return body;
  };
  const auto nested = [](size_t depth) {
    return R"({"metadata":)" + std::string(depth, '[') + std::string(depth, ']') + "}";
  };
  std::string many = "{\"metadata\":[";
  while (many.size() < 6'000'000) many += "{},";
  many += "{}]}";
  const std::vector<std::pair<const char*, std::string>> table{
      {"nothing", ""},
      {"garbage", "\x16\x03\x01 hello"},
      {"zero bytes", std::string(1000, '\0')},
      {"a byte order mark", "\xEF\xBB\xBF"},
      {"not an object", "[1, 2]"},
      {"null", "null"},
      {"an empty object", "{}"},
      {"half an AdmissionReview", whole.substr(0, whole.size() / 2)},
      {"all but the last byte", whole.substr(0, whole.size() - 1)},
      {"an AdmissionReview and more", whole + "x"},
      {"v1beta1", replaced("admission.k8s.io/v1", "admission.k8s.io/v1beta1")},
      {"a version to come", replaced("admission.k8s.io/v1", "admission.k8s.io/v2")},
      {"another kind of object", replaced(R"("kind":"Pod"})", R"("kind":"Node"})")},
      {"an update", replaced("CREATE", "UPDATE")},
      {"a deletion without object", replaced(golden_.pod.dump(), "null")},
      {"an object that is none", replaced(golden_.pod.dump(), "[]")},
      {"lists where objects belong", review_of(R"({"metadata":[],"spec":[]})")},
      {"objects where lists belong",
       review_of(R"({"metadata":{"annotations":{"compilecache.dev/cache":"transformer"}},)"
                 R"("spec":{"containers":{"a":1},"volumes":"x","initContainers":7}})")},
      {"nothing but nulls",
       review_of(R"({"metadata":{"annotations":{"compilecache.dev/cache":null}},"spec":null})")},
      {"a number beyond all", review_of(R"({"metadata":{"x":1e999}})")},
      {"invalid UTF-8", review_of("{\"metadata\":{\"name\":\"\xC0\x80\"}}")},
      {"half a surrogate", review_of(R"({"metadata":{"name":"\ud800"}})")},
      {"deep nesting", review_of(nested(1'000))},
      {"nesting as deep as can be", review_of(nested(3'000'000))},
      {"an end in the depth", std::string(7'000'000, '[')},
      {"millions of values", review_of(many)},
      {"one large text", review_of(R"({"x":")" + std::string(7'000'000, 'a') + "\"}")},
  };
  for (const auto& [name, body] : table) {
    const std::string answer = send(post(body));
    const json response = allowed(answer);
    EXPECT_TRUE(response.is_object()) << name << ": " << answer.substr(0, 300);
    EXPECT_FALSE(response.contains("patch")) << name;
  }
  expect_still_injecting();
}

TEST_F(WebhookBytes, TheUidComesBackWhereverThereIsOne) {
  EXPECT_EQ(allowed(send(post(review()))).value("uid", ""), "705ab4f5");
  std::string old = review();
  old.replace(old.find("/v1"), 3, "/v1beta1");
  EXPECT_EQ(allowed(send(post(old))).value("uid", ""), "705ab4f5");
}

TEST_F(WebhookBytes, ContentTypeAndEncodingDoNotMatter) {
  for (const char* header : {"Content-Type: text/plain\r\n", "Content-Type: \r\n",
                             "Accept: */*\r\n", "Expect: something\r\n"}) {
    EXPECT_TRUE(allowed(send(post(review(), header))).contains("patch")) << header;
  }
  std::string chunks;
  const std::string body = review();
  char size[32];
  for (size_t at = 0; at < body.size(); at += 100) {
    const std::string part = body.substr(at, 100);
    std::snprintf(size, sizeof size, "%zx\r\n", part.size());
    chunks += size + part + "\r\n";
  }
  EXPECT_TRUE(allowed(send("POST /mutate HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                           "Transfer-Encoding: chunked\r\n\r\n" +
                           chunks + "0\r\n\r\n"))
                  .contains("patch"));
}

// None of these is 2xx, so the API server goes on without us.
TEST_F(WebhookBytes, WhatIsNoRequestOrTooLargeIsAnsweredByAStatus) {
  const std::string huge = std::string(7 * 1024 * 1024 + 1, ' ');
  const std::vector<std::tuple<const char*, std::string, const char*>> table{
      {"no HTTP", "hello\r\n\r\n", "HTTP/1.1 400"},
      {"a TLS greeting", "\x16\x03\x01\x02\x01\x01\xfc\x03\x03\r\n\r\n", "HTTP/1.1 400"},
      {"HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP/1.1 400"},
      {"an empty line", "\r\n\r\n\r\n", "HTTP/1.1 400"},
      {"two lengths", "POST /mutate HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
       "HTTP/1.1 400"},
      {"a length below zero", "POST /mutate HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
       "HTTP/1.1 400"},
      {"a chunk without size", "POST /mutate HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
       "HTTP/1.1 400"},
      {"too large", post(huge), "HTTP/1.1 413"},
      {"headers too large", "GET /" + std::string(100'000, 'a') + " HTTP/1.1\r\n\r\n",
       "HTTP/1.1 431"},
      {"another path", "POST /other HTTP/1.1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
       "HTTP/1.1 404"},
      {"another method", "GET /mutate HTTP/1.1\r\nConnection: close\r\n\r\n", "HTTP/1.1 405"},
  };
  for (const auto& [name, bytes, status] : table)
    EXPECT_THAT(send(bytes), StartsWith(status)) << name;
  expect_still_injecting();
}

// Anyone who reaches the port may post anything; only API servers know the path.
TEST_F(WebhookBytes, StrangersLearnNothingAndDoNothing) {
  std::atomic<int> refused{0};
  service_->set_review_path(
      [] {
        return ReviewPath{"0123456789abcdef", true};
      },
      [&refused] { ++refused; });
  const auto post_to = [&](const std::string& path) {
    std::string bytes = post(review());
    bytes.replace(bytes.find("/mutate"), 7, path);
    return send(bytes);
  };
  const std::string before = metrics_.text();
  for (const char* path : {"/mutate", "/", "/mutate/", "/mutate/0123456789abcdee", "/mutate/0",
                           "/mutate/0123456789abcdef/", "/x"}) {
    const std::string answer = post_to(path);
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 403")) << path;
    EXPECT_EQ(answer.find(golden_.cache->spec.storage->claim_name), std::string::npos);
  }
  EXPECT_TRUE(events_.records.empty());
  EXPECT_EQ(metrics_.text(), before);
  EXPECT_EQ(refused, 7) << "the keeper of the path checks for another one";
  EXPECT_TRUE(allowed(post_to("/mutate/0123456789abcdef")).contains("patch"));
  EXPECT_EQ(refused, 7);
}

// The same over TLS, by API servers that show a certificate of "clients".
class ReviewsWithCertificates : public WebhookBytes {
 protected:
  ReviewsWithCertificates() {
    server_->stop(std::chrono::seconds(5));
    service_->require_client_certificates();
    server_ =
        *http::Server::start({.address = "127.0.0.1", .tls = true, .client_ca = clients_.pem()},
                             [this](http::Request request, http::Responder to) {
                               service_->handle(std::move(request), std::move(to));
                             });
    const auto own = others_.issue("webhook.system.svc");
    EXPECT_TRUE(server_->set_certificate(own.certificate_pem, own.key_pem));
  }
  std::string send(const std::string& bytes, std::optional<http::testing::Pair> shown) const {
    return http::testing::tls_exchange(server_->port(), bytes, shown);
  }

  const http::testing::TestCa clients_{"clients"}, others_{"others"};
};

TEST_F(ReviewsWithCertificates, OnlyThoseOfAnApiServerAreAnswered) {
  EXPECT_TRUE(allowed(send(post(review()), clients_.issue_for("clientAuth"))).contains("patch"));
  for (const auto& [shown, status] :
       std::vector<std::pair<std::optional<http::testing::Pair>, const char*>>{
           {std::nullopt, "HTTP/1.1 401"},
           {others_.issue_for("clientAuth"), "HTTP/1.1 403"},
           {clients_.issue_for("clientAuth", -60), "HTTP/1.1 403"}}) {
    const std::string answer = send(post(review()), shown);
    EXPECT_THAT(answer, StartsWith(status));
    EXPECT_EQ(answer.find(golden_.cache->spec.storage->claim_name), std::string::npos);
  }
  EXPECT_THAT(send("GET /else HTTP/1.1\r\nConnection: close\r\n\r\n", std::nullopt),
              StartsWith("HTTP/1.1 404"))
      << "is no review";
}

// It says more than the path, which may be an earlier one.
TEST_F(ReviewsWithCertificates, TheirPathDoesNotMatterAndTheirOwnersAreTold) {
  service_->set_review_path([] { return ReviewPath{"0123456789abcdef", true}; });
  EXPECT_TRUE(allowed(send(post(review()), clients_.issue_for("clientAuth"))).contains("patch"));
  server_->stop(std::chrono::seconds(5));
  service_->stop();
  ASSERT_EQ(events_.records.size(), 1U);
  EXPECT_NE(events_.records[0].object.kind, "CompileCache");
}

// Until the configuration has it, API servers still come by the old one.
TEST_F(WebhookBytes, APathThatIsNotInForceYetKeepsNobodyOut) {
  service_->set_review_path([] { return ReviewPath{"0123456789abcdef", false}; });
  EXPECT_TRUE(allowed(send(post(review()))).contains("patch"));
}

// Where no path can be kept secret, nobody makes us write Events about what he names.
TEST_F(WebhookBytes, AReviewThatMayBeAnyonesHasNoEventAboutAStrangersObject) {
  EXPECT_TRUE(allowed(send(post(review()))).contains("patch"));
  server_->stop(std::chrono::seconds(5));
  service_->stop();
  ASSERT_EQ(events_.records.size(), 1U);
  EXPECT_EQ(events_.records[0].object.kind, "CompileCache");
  EXPECT_EQ(events_.records[0].object.uid, golden_.cache->metadata.uid);
}

// A service whose threads have not begun yet, and a clock that the test moves.
class WaitingReviews : public WebhookBytes {
 protected:
  WaitingReviews() {
    server_->stop(std::chrono::seconds(5));
    kube::Config config;
    config.server = api_server_.url();
    late_.emplace(kube::Client(*kube::make_transport(config)), caches_, golden_.settings, events_,
                  metrics_, time_);
    server_ = *http::Server::start({.address = "127.0.0.1", .tls = false},
                                   [this](http::Request request, http::Responder to) {
                                     late_->handle(std::move(request), std::move(to));
                                     ++handed_over_;
                                   });
  }
  ~WaitingReviews() override {
    server_->stop(std::chrono::seconds(5));
    late_->stop();
  }

  FakeClock time_;
  std::optional<WebhookService> late_;
  std::atomic<int> handed_over_{0};
};

TEST_F(WaitingReviews, WhatWouldComeTooLateLeavesThePodAloneAndSaysSo) {
  http::testing::RawSocket client(server_->port());
  client.send(post(review()));
  EXPECT_TRUE(soon([&] { return handed_over_ == 1; }));
  EXPECT_FALSE(late_->overloaded());
  time_.advance(std::chrono::seconds(2));
  EXPECT_TRUE(late_->overloaded());
  late_->start();
  const json response = allowed(client.read_all());
  EXPECT_EQ(response.value("uid", ""), "705ab4f5");
  EXPECT_FALSE(response.contains("patch"));
  EXPECT_THAT(response.value("warnings", json::array()).dump(), HasSubstr("took_too_long"));
  EXPECT_FALSE(late_->overloaded());
  EXPECT_TRUE(allowed(send(post(review()))).contains("patch"));
}

// Whatever looking at pods costs, the I/O threads do none of it: they read, refuse and answer.
TEST_F(WaitingReviews, WhoeverWaitsHoldsUpNobodyElse) {
  const std::string large = review_of(R"({"x":")" + std::string(300'000, 'a') + "\"}");
  std::list<http::testing::RawSocket> clients;
  const auto most = static_cast<int>(ReviewPool::kMostLargeWaiting);
  for (int i = 0; i < most; ++i) clients.emplace_back(server_->port()).send(post(large));
  EXPECT_TRUE(soon([&] { return handed_over_ == most; }));
  EXPECT_THAT(send(post(large)), StartsWith("HTTP/1.1 503"));
  EXPECT_THAT(send("GET /mutate HTTP/1.1\r\nConnection: close\r\n\r\n"),
              StartsWith("HTTP/1.1 405"));
  http::testing::RawSocket ordinary(server_->port());
  ordinary.send(post(review()));
  EXPECT_TRUE(soon([&] { return handed_over_ == most + 3; }));
  late_->start();
  EXPECT_FALSE(allowed(ordinary.read_all()).is_null());
}

}  // namespace
}  // namespace compilecache::controller
