#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <fstream>
#include <list>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <vector>

#include "base/free_memory.hpp"
#include "http/server.hpp"
#include "kube/cpprest_transport.hpp"
#include "operator/webhook_service.hpp"
#include "tests/support/fake_apiserver.hpp"
#include "tests/support/soon.hpp"
#include "tests/unit/http/raw_socket.hpp"
#include "tests/unit/webhook/golden_case.hpp"

// What memory the webhook takes under ten thousand requests that were made to take much, beside six
// hundred connections that send nothing, and the rest of it. The process' memory is measured,
// the senders' too, so this is a program of its own.

namespace compilecache::controller {
namespace {

using compilecache::testing::soon;
using http::testing::RawSocket;

constexpr int64_t kMiB = 1 << 20;
constexpr int kRequests = 10'000, kSenders = 8, kConnections = 600;

int64_t resident() {
  int64_t size = 0, pages = 0;
  std::ifstream("/proc/self/statm") >> size >> pages;
  return pages * sysconf(_SC_PAGESIZE);
}

std::string review_of(const std::string& pod) {
  return R"({"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"705ab4f5",)"
         R"("kind":{"group":"","version":"v1","kind":"Pod"},"operation":"CREATE","namespace":"ml",)"
         R"("object":)" +
         pod + "}}";
}

std::string repeated(std::string_view piece, size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += piece;
  return text;
}

// A megabyte of what costs most in a tree, and as much as still counts as an ordinary review.
std::vector<std::string> bombs(const webhook::testing::GoldenCase& golden) {
  std::vector<std::string> bodies;
  for (const size_t size : {size_t(50'000), size_t(1'000'000)}) {
    const std::string annotated =
        R"({"metadata":{"annotations":{"compilecache.dev/cache":"transformer"},"a":[)";
    bodies.push_back(review_of(annotated + repeated("{},", size) + "0]}}"));
    bodies.push_back(review_of(annotated + repeated("[[]],", size) + "0]}}"));
    bodies.push_back(review_of(annotated + repeated(R"({"a":"\u0041"},)", size) + "0]}}"));
    bodies.push_back(review_of(annotated + "\"" + repeated("$(", size) + "\"]}}"));
    nlohmann::json pod = golden.pod;
    pod["spec"]["containers"][0]["args"] = {repeated("$(", size)};
    bodies.push_back(review_of(pod.dump()));
  }
  return bodies;
}

class WebhookMemory : public ::testing::Test {
 protected:
  WebhookMemory() {
    keep_little_free_memory();
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
  ~WebhookMemory() override {
    server_->stop(std::chrono::seconds(5));
    service_->stop();
  }

  // Sends each of the bodies in turn, one in forty of the large ones; returns the most memory seen.
  int64_t send_all(const std::vector<std::string>& bodies) {
    std::atomic<int> next{0}, answered{0};
    std::atomic<int64_t> most{0};
    std::vector<std::thread> senders;
    const size_t half = bodies.size() / 2;
    for (int i = 0; i < kSenders; ++i) {
      senders.emplace_back([&] {
        for (int n = next++; n < kRequests; n = next++) {
          const auto kind = static_cast<size_t>(n / 40) % half;
          const std::string& body =
              bodies[n % 40 == 0 ? half + kind : static_cast<size_t>(n) % half];
          RawSocket socket(server_->port());
          socket.send(
              "POST /mutate?timeout=3s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
              "Content-Length: " +
              std::to_string(body.size()) + "\r\n\r\n" + body);
          if (socket.read_all().starts_with("HTTP/1.1 ")) ++answered;
          if (n % 50 == 0) most = std::max<int64_t>(most, resident());
        }
      });
    }
    for (std::thread& sender : senders) sender.join();
    EXPECT_EQ(answered, kRequests);
    return most;
  }

  struct Events : kube::EventSink {
    void record(const kube::EventRecord& /*record*/) override {}
  };

  const webhook::testing::GoldenCase golden_ = webhook::testing::load_golden_case("deployment");
  testing::FakeApiServer api_server_;
  kube::Store<api::CompileCache> caches_;
  Events events_;
  Metrics metrics_;
  std::optional<WebhookService> service_;
  std::unique_ptr<http::Server> server_;
};

TEST_F(WebhookMemory, TenThousandBombsLeaveNothingBehind) {
  MemoryWatch watch;  // as in the operator, which looks every ten seconds
  const std::vector<std::string> bodies = bombs(golden_);
  const int64_t before = resident();
  int64_t most = 0;
  {
    std::list<RawSocket> idle;
    for (int i = 0; i < kConnections; ++i) {
      idle.emplace_back(server_->port());
      idle.back().send("POST /mutate HTTP/1.1\r\nHost: x\r\n");
    }
    most = send_all(bodies);
  }
  EXPECT_TRUE(soon([&] { return server_->open_connections() == 0; }));
  const int64_t unwatched = resident();
  watch.look();
  const int64_t after = resident();
  std::printf("before %ld MiB, most %ld, afterwards %ld, looked at %ld\n", long(before / kMiB),
              long(most / kMiB), long(unwatched / kMiB), long(after / kMiB));
  EXPECT_LT(most, before + 160 * kMiB) << "64 MiB of bodies, two trees and the senders'";
  EXPECT_LT(after, before + 20 * kMiB);
}

}  // namespace
}  // namespace compilecache::controller
