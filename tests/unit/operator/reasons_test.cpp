#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/log.hpp"
#include "http/server.hpp"
#include "kube/cpprest_transport.hpp"
#include "operator/webhook_service.hpp"
#include "tests/support/fake_apiserver.hpp"
#include "tests/support/soon.hpp"
#include "tests/unit/http/raw_socket.hpp"
#include "tests/unit/webhook/golden_case.hpp"

// One word wherever somebody meets a reason: the admission warning, the Event, the log and the
// metric. That docs/troubleshoot/reasons.md has it is tests/unit/config/docs_test.cpp's.

namespace compilecache::controller {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using webhook::testing::GoldenCase;

struct Events : kube::EventSink {
  void record(const kube::EventRecord& record) override { records.push_back(record); }
  std::vector<kube::EventRecord> records;
};

// The traces of one admission, for an API server and for its users.
struct Seen {
  json response, log;
  std::vector<kube::EventRecord> events;
  std::string metrics;
};

// Looking at a large pod takes long where the machine is busy, and such a pod is never held: for it
// time stands still, so that no answer is late.
const Clock& clock_for(const GoldenCase& golden) {
  static const FakeClock stopped;
  if (golden.pod.dump().size() > size_t{1} << 20) return stopped;
  return SystemClock::instance();
}

class Service {
 public:
  explicit Service(const GoldenCase& golden) {
    std::vector<kube::Store<api::CompileCache>::Item> caches;
    if (golden.cache) {
      caches.emplace_back(golden.cache->metadata.key(),
                          std::make_shared<const api::CompileCache>(*golden.cache));
    }
    caches_.replace(std::move(caches));
    put_facts(golden);
    kube::Config config;
    config.server = api_server_.url();
    service_.emplace(kube::Client(*kube::make_transport(config)), caches_, golden.settings, events_,
                     metrics_, clock_for(golden));
    service_->set_review_path([] { return ReviewPath{"secret", true}; });
    service_->start();
    EXPECT_TRUE(compilecache::testing::soon([&] { return service_->synced(); }));
    server_ = *http::Server::start({.address = "127.0.0.1", .tls = false},
                                   [this](http::Request request, http::Responder to) {
                                     service_->handle(std::move(request), std::move(to));
                                   });
  }
  ~Service() {
    server_->stop(std::chrono::seconds(5));
    service_->stop();
  }

  Seen post(const std::string& body) {
    ::testing::internal::CaptureStderr();
    http::testing::RawSocket socket(server_->port());
    socket.send("POST /mutate/secret HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: " +
                std::to_string(body.size()) + "\r\n\r\n" + body);
    const std::string answer = socket.read_all();
    // The Event and the log line come after the answer.
    server_->stop(std::chrono::seconds(5));
    service_->stop();
    const std::string log = ::testing::internal::GetCapturedStderr();
    Seen seen{json::parse(answer.substr(answer.find("\r\n\r\n"))).at("response"), json::object(),
              events_.records, metrics_.text()};
    const size_t line = log.find("{\"time\"");
    if (line != std::string::npos) seen.log = json::parse(log.substr(line, log.find('\n', line)));
    return seen;
  }

 private:
  void put_facts(const GoldenCase& golden) {
    const auto facts = webhook::testing::read_json(golden.folder + "/facts.json");
    if (!facts) return;
    for (const auto& [list, path] :
         {std::pair{"limitRanges", "/api/v1/limitranges"}, {"quotas", "/api/v1/resourcequotas"}}) {
      for (json object : facts->value(list, json::array())) {
        object["metadata"]["namespace"] = golden.ns;
        if (!object["metadata"].contains("name")) object["metadata"]["name"] = "limits";
        api_server_.put(path, object);
      }
    }
  }

  testing::FakeApiServer api_server_;
  kube::Store<api::CompileCache> caches_;
  Events events_;
  Metrics metrics_;
  std::optional<WebhookService> service_;
  std::unique_ptr<http::Server> server_;
};

std::string review_of(const json& pod, const std::string& ns) {
  return json{{"apiVersion", "admission.k8s.io/v1"},
              {"kind", "AdmissionReview"},
              {"request",
               {{"uid", "1"},
                {"kind", {{"group", ""}, {"version", "v1"}, {"kind", "Pod"}}},
                {"namespace", ns},
                {"operation", "CREATE"},
                {"object", pod}}}}
      .dump();
}

void expect_counted_and_logged(const Seen& seen, std::string_view word) {
  EXPECT_EQ(seen.log.value("reason", ""), word) << seen.log;
  EXPECT_THAT(seen.metrics, HasSubstr("compilecache_webhook_requests_total{reason=\"" +
                                      std::string(word) + "\"} 1"));
}

// The first golden case of each reason.
std::vector<std::string> one_case_of_each_reason() {
  std::map<std::string, std::string> found;
  for (const std::string& name : webhook::testing::golden_case_names()) {
    const GoldenCase golden = webhook::testing::load_golden_case(name);
    found.emplace(webhook::testing::read_json(golden.folder + "/report.json")->at("reason"), name);
  }
  std::vector<std::string> names;
  for (const auto& [reason, name] : found) names.push_back(name);
  return names;
}

class Reasons : public ::testing::TestWithParam<std::string> {
 protected:
  Reasons() { log_init(LogFormat::kJson, LogLevel::kInfo); }
};

TEST_P(Reasons, TheSameWordIsInWarningEventLogAndMetric) {
  const GoldenCase golden = webhook::testing::load_golden_case(GetParam());
  const json report = *webhook::testing::read_json(golden.folder + "/report.json");
  const std::string word = report.at("reason");
  const Seen seen = Service(golden).post(review_of(golden.pod, golden.ns));
  expect_counted_and_logged(seen, word);
  EXPECT_EQ(seen.response.value("warnings", json::array()).size(), report.at("warnings").size());
  if (report.at("outcome") == "skipped" && !report.at("warnings").empty()) {
    EXPECT_THAT(seen.response.at("warnings")[0].get<std::string>(), HasSubstr(", " + word + ": "));
  }
  // Nothing happened to these pods.
  if (word == "not_annotated" || report.at("outcome") == "unchanged") {
    EXPECT_TRUE(seen.events.empty());
    return;
  }
  ASSERT_EQ(seen.events.size(), 1U);
  const kube::EventRecord& event = seen.events[0];
  EXPECT_EQ(event.message, report.at("message"));
  EXPECT_FALSE(event.object.name.empty());
  for (const api::InjectionReasonText& text : api::injection_reasons()) {
    if (text.word == word) {
      EXPECT_EQ(event.reason, text.event);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Webhook, Reasons, ::testing::ValuesIn(one_case_of_each_reason()),
                         [](const auto& param) {
                           std::string name = param.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// No golden pair can show it.
TEST(ReasonsWithoutACase, Garbage) {
  log_init(LogFormat::kJson, LogLevel::kInfo);
  const GoldenCase golden = webhook::testing::load_golden_case("deployment");
  const Seen garbage = Service(golden).post("garbage");
  expect_counted_and_logged(garbage, "request_invalid");
  EXPECT_THAT(garbage.response.at("warnings")[0].get<std::string>(), HasSubstr("request_invalid"));
  EXPECT_TRUE(garbage.events.empty());
}

}  // namespace
}  // namespace compilecache::controller
