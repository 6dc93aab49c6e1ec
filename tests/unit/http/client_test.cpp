#include "http/client.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <unistd.h>

#include <list>
#include <mutex>
#include <stop_token>
#include <thread>

#include "http/server.hpp"
#include "tests/unit/http/certificates.hpp"
#include "tests/unit/http/raw_socket.hpp"
#include "tests/unit/http/session_servers.hpp"

namespace compilecache::http {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using testing::Pair;
using testing::RawServer;
using testing::TestCa;

constexpr char kName[] = "agents.system.svc";

ClientOptions options_for(uint16_t port, const std::string& ca_pem) {
  return {.address = "127.0.0.1",
          .port = port,
          .ca_pem = ca_pem,
          .server_name = kName,
          .connect_timeout = seconds(30),
          .total_timeout = seconds(30)};
}

class ClientTest : public ::testing::Test {
 protected:
  void serve(Handler handler, const std::string& name = kName, long good_for = 3600,
             const std::string& address = "") {
    auto server = Server::start({.address = address, .tls = true}, std::move(handler));
    ASSERT_TRUE(server) << server.error().message;
    server_ = std::move(*server);
    const Pair pair = ca_.issue(name, good_for);
    ASSERT_TRUE(server_->set_certificate(pair.certificate_pem, pair.key_pem));
  }
  ClientOptions options() { return options_for(server_->port(), ca_.pem()); }

  TestCa ca_{"trusted"};
  std::unique_ptr<Server> server_;
};

void say_ok(const Request&, const Responder& respond) { respond(text_response(200, "ok")); }

ErrorCode code_of(const Result<Response>& response) {
  return response ? ErrorCode::kInternal : response.error().code;
}

TEST_F(ClientTest, AnIpv6AddressIsCalledAndProvedAsAnyOther) {
  const auto say_host = [](const Request& request, const Responder& respond) {
    respond(text_response(200, std::string(request.header("host").value_or(""))));
  };
  if (!Server::start({.address = "::1"}, say_host)) GTEST_SKIP() << "this machine has no IPv6";
  for (const std::string name : {kName, "::1"}) {
    serve(say_host, name, 3600, "::1");
    ClientOptions options = this->options();
    options.address = "::1";
    options.server_name = name;
    const auto response = Client(options).send({});
    ASSERT_TRUE(response) << response.error().message;
    EXPECT_EQ(response->body, (name == kName ? name : "[::1]") + "\n");
    options.server_name = "fd00::1";
    const auto other = Client(options).send({});
    EXPECT_EQ(code_of(other), ErrorCode::kUnauthorized);
    EXPECT_THAT(other.error().message, HasSubstr("https://[::1]:"));
  }
}

TEST_F(ClientTest, SendsWhatItIsToldAndReturnsTheAnswer) {
  serve([](const Request& request, const Responder& respond) {
    respond(Response{.status = 409,
                     .body = request.method + " " + request.path + " " + request.query + " " +
                             std::string(request.bearer_token().value_or("")) + " " +
                             std::string(request.header("Content-Type").value_or("")) + " " +
                             request.body,
                     .headers = {{"Retry-After", "3"}}});
  });
  const auto response = Client(options()).send({.method = "PUT",
                                                .target = "/v1/saves/a?b=c",
                                                .body = "{\"fence\":1}",
                                                .bearer_token = "secret"});
  ASSERT_TRUE(response) << response.error().message;
  EXPECT_EQ(response->status, 409);
  EXPECT_EQ(response->body, "PUT /v1/saves/a b=c secret application/json {\"fence\":1}");
  EXPECT_EQ(response->header("retry-after"), "3");
  EXPECT_EQ(response->content_type, "application/json");
}

TEST_F(ClientTest, LargeBodiesTravelBothWays) {
  serve([](Request request, const Responder& respond) {
    respond(Response{.body = std::move(request.body)});
  });
  const std::string body(5 * 1024 * 1024, 'x');
  const auto response = Client(options()).send({.method = "POST", .body = body});
  ASSERT_TRUE(response) << response.error().message;
  EXPECT_EQ(response->body.size(), body.size());
}

TEST_F(ClientTest, AnotherNameInTheCertificateIsRefused) {
  serve(say_ok, "somebody.else.svc");
  const auto response = Client(options()).send({});
  EXPECT_EQ(code_of(response), ErrorCode::kUnauthorized);
  EXPECT_THAT(response.error().message, HasSubstr(kName));
}

TEST_F(ClientTest, AnotherCaIsRefused) {
  serve(say_ok);
  const TestCa other("other");
  ClientOptions with_other = options();
  with_other.ca_pem = other.pem();
  EXPECT_EQ(code_of(Client(with_other).send({})), ErrorCode::kUnauthorized);
}

TEST_F(ClientTest, AnExpiredCertificateIsRefused) {
  serve(say_ok, kName, -60);
  const auto response = Client(options()).send({});
  EXPECT_EQ(code_of(response), ErrorCode::kUnauthorized);
  EXPECT_THAT(response.error().message, HasSubstr("expired"));
}

TEST_F(ClientTest, EveryCertificateOfTheBundleIsTrusted) {
  serve(say_ok);
  const TestCa other("other");
  for (const std::string& bundle : {other.pem() + ca_.pem(), ca_.pem() + other.pem()}) {
    ClientOptions with_bundle = options();
    with_bundle.ca_pem = bundle;
    EXPECT_TRUE(Client(with_bundle).send({}));
  }
}

TEST_F(ClientTest, OptionsThatCannotWorkAreSaid) {
  serve(say_ok);
  ClientOptions bad_address = options();
  bad_address.address = "localhost";
  EXPECT_EQ(code_of(Client(bad_address).send({})), ErrorCode::kInvalid);
  ClientOptions bad_ca = options();
  bad_ca.ca_pem = "no certificate";
  EXPECT_EQ(code_of(Client(bad_ca).send({})), ErrorCode::kInvalid);
  ClientOptions no_name = options();
  no_name.server_name = "";
  EXPECT_EQ(code_of(Client(no_name).send({})), ErrorCode::kInvalid);
}

TEST_F(ClientTest, NobodyThereIsUnavailable) {
  uint16_t port = 0;
  {
    port = RawServer([](int) {}).port();
  }
  EXPECT_EQ(code_of(Client(options_for(port, ca_.pem())).send({})), ErrorCode::kUnavailable);
}

TEST_F(ClientTest, AServerThatHangsUpIsUnavailable) {
  const RawServer rude([](int) {});
  EXPECT_EQ(code_of(Client(options_for(rude.port(), ca_.pem())).send({})), ErrorCode::kUnavailable);
}

// Reads until the client goes away and never says a word.
void stay_silent(int fd) {
  char byte;
  while (read(fd, &byte, 1) > 0) {
  }
}

TEST_F(ClientTest, ASilentServerTimesOutWhileConnecting) {
  const RawServer silent(stay_silent);
  ClientOptions impatient = options_for(silent.port(), ca_.pem());
  impatient.connect_timeout = milliseconds(50);
  const auto response = Client(impatient).send({});
  EXPECT_EQ(code_of(response), ErrorCode::kTimeout);
  EXPECT_THAT(response.error().message, HasSubstr("handshake"));
}

TEST_F(ClientTest, ACallThatIsStoppedEndsAtOnce) {
  const RawServer silent(stay_silent);
  ClientOptions patient = options_for(silent.port(), ca_.pem());
  patient.connect_timeout = patient.total_timeout = std::chrono::hours(1);
  std::stop_source stop;
  std::jthread stopper([&] {
    std::this_thread::sleep_for(milliseconds(20));
    stop.request_stop();
  });
  EXPECT_EQ(code_of(Client(patient).send({.stop = stop.get_token()})), ErrorCode::kUnavailable);
  EXPECT_EQ(code_of(Client(patient).send({.stop = stop.get_token()})), ErrorCode::kUnavailable)
      << "it was stopped before it began";
}

TEST_F(ClientTest, AHandlerWithoutAnswerTimesOut) {
  std::mutex mutex;
  std::list<Responder> kept;
  serve([&](const Request&, Responder respond) {
    const std::lock_guard lock(mutex);
    kept.push_back(std::move(respond));
  });
  EXPECT_EQ(code_of(Client(options()).send({.timeout = milliseconds(200)})), ErrorCode::kTimeout);
  server_.reset();
}

TEST_F(ClientTest, AnswersOverTheLimitAreRefused) {
  serve([](const Request&, const Responder& respond) {
    respond(text_response(200, std::string(2000, 'x')));
  });
  ClientOptions small = options();
  small.max_response_bytes = 1000;
  const auto response = Client(small).send({});
  EXPECT_EQ(code_of(response), ErrorCode::kTooLarge);
  EXPECT_THAT(response.error().message, HasSubstr("1000"));
}

TEST_F(ClientTest, ARefusalInMidRequestIsRead) {
  serve(say_ok);
  const auto response =
      Client(options()).send({.method = "POST", .body = std::string(8 * 1024 * 1024, 'x')});
  ASSERT_TRUE(response) << response.error().message;
  EXPECT_EQ(response->status, 413);
}

TEST_F(ClientTest, WhatIsNotHttpIsCorrupt) {
  const auto server = testing::tls_parrot(ca_, kName, "SSH-2.0-OpenSSH_9.2\r\n\r\n");
  EXPECT_EQ(code_of(Client(options_for(server->port(), ca_.pem())).send({})), ErrorCode::kCorrupt);
}

TEST_F(ClientTest, AnAnswerCutShortIsUnavailable) {
  for (const char* part : {"", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc"}) {
    const auto server = testing::tls_parrot(ca_, kName, part);
    EXPECT_EQ(code_of(Client(options_for(server->port(), ca_.pem())).send({})),
              ErrorCode::kUnavailable);
  }
}

}  // namespace
}  // namespace compilecache::http
