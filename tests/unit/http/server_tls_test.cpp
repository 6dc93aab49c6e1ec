#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "http/client.hpp"
#include "http/server.hpp"
#include "tests/unit/http/certificates.hpp"
#include "tests/unit/http/raw_socket.hpp"
#include "tests/unit/http/tls_exchange.hpp"

namespace compilecache::http {
namespace {

using std::chrono::milliseconds;
using testing::Pair;
using testing::RawSocket;
using testing::TestCa;

constexpr char kName[] = "webhook.system.svc";

std::unique_ptr<Server> start(Limits limits = {}) {
  auto server = Server::start({.tls = true, .limits = limits},
                              [](const Request& request, const Responder& respond) {
                                respond(text_response(200, request.path));
                              });
  EXPECT_TRUE(server) << server.error().message;
  return std::move(*server);
}

Client client_for(const Server& server, const std::string& ca_pem) {
  return Client({.address = "127.0.0.1",
                 .port = server.port(),
                 .ca_pem = ca_pem,
                 .server_name = kName,
                 .connect_timeout = std::chrono::seconds(30),
                 .total_timeout = std::chrono::seconds(30)});
}

TEST(ServerTls, WithoutACertificateNobodyIsServedAndItIsNotReady) {
  const TestCa ca("one");
  const auto server = start();
  EXPECT_FALSE(server->has_certificate());
  EXPECT_FALSE(client_for(*server, ca.pem()).send({}));
  const Pair pair = ca.issue(kName);
  ASSERT_TRUE(server->set_certificate(pair.certificate_pem, pair.key_pem));
  EXPECT_TRUE(server->has_certificate());
  EXPECT_TRUE(client_for(*server, ca.pem()).send({}));
}

TEST(ServerTls, ANewCertificateServesTheNextConnection) {
  const TestCa old_ca("old");
  const TestCa new_ca("new");
  const auto server = start();
  const Pair first = old_ca.issue(kName);
  const Pair second = new_ca.issue(kName);
  ASSERT_TRUE(server->set_certificate(first.certificate_pem, first.key_pem));
  EXPECT_TRUE(client_for(*server, old_ca.pem()).send({}));
  ASSERT_TRUE(server->set_certificate(second.certificate_pem, second.key_pem));
  EXPECT_TRUE(client_for(*server, new_ca.pem()).send({}));
  EXPECT_FALSE(client_for(*server, old_ca.pem()).send({}));
}

TEST(ServerTls, AnUnusableCertificateIsRefusedAndTheOldOneServesOn) {
  const TestCa ca("one");
  const auto server = start();
  const Pair good = ca.issue(kName);
  const Pair other = ca.issue(kName);
  ASSERT_TRUE(server->set_certificate(good.certificate_pem, good.key_pem));
  for (const auto& [chain, key] :
       std::vector<std::pair<std::string, std::string>>{{"", ""},
                                                        {"not pem", good.key_pem},
                                                        {good.certificate_pem, "not pem"},
                                                        {good.certificate_pem, other.key_pem}}) {
    const auto status = server->set_certificate(chain, key);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::kInvalid);
  }
  EXPECT_TRUE(client_for(*server, ca.pem()).send({}));
}

TEST(ServerTls, RotatingUnderUseFailsNoRequest) {
  const TestCa old_ca("old");
  const TestCa new_ca("new");
  const auto server = start();
  const std::vector<Pair> pairs{old_ca.issue(kName), new_ca.issue(kName)};
  ASSERT_TRUE(server->set_certificate(pairs[0].certificate_pem, pairs[0].key_pem));
  std::atomic<int> failures = 0;
  std::vector<std::thread> clients;
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back([&] {
      const Client client = client_for(*server, old_ca.pem() + new_ca.pem());
      for (int call = 0; call < 50; ++call) failures += client.send({}) ? 0 : 1;
    });
  }
  for (size_t i = 0; i < 100; ++i) {
    const Pair& pair = pairs[i % 2];
    EXPECT_TRUE(server->set_certificate(pair.certificate_pem, pair.key_pem));
    std::this_thread::yield();
  }
  for (auto& client : clients) client.join();
  EXPECT_EQ(failures, 0);
}

// Nobody is turned away: the handler knows what for.
TEST(ServerTls, TellsWhatCertificateAClientHas) {
  const TestCa clients("clients");
  const TestCa others("others");
  const Pair own = others.issue(kName);
  auto server =
      *Server::start({.tls = true, .client_ca = clients.pem()},
                     [](const Request& request, const Responder& respond) {
                       static const char* const kWords[] = {"none", "untrusted", "trusted"};
                       respond(text_response(200, kWords[int(request.certificate)]));
                     });
  ASSERT_TRUE(server->set_certificate(own.certificate_pem, own.key_pem));
  const auto told = [&](const std::optional<Pair>& shown) {
    const std::string answer = testing::tls_exchange(
        server->port(), "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", shown);
    const size_t body = answer.find("\r\n\r\n");
    return body == std::string::npos ? answer : answer.substr(body + 4);
  };
  EXPECT_EQ(told({}), "none\n");
  EXPECT_EQ(told(clients.issue_for("clientAuth")), "trusted\n");
  EXPECT_EQ(told(clients.issue("of.any.use")), "trusted\n");
  EXPECT_EQ(told(others.issue_for("clientAuth")), "untrusted\n");
  EXPECT_EQ(told(clients.issue_for("clientAuth", -60)), "untrusted\n") << "expired";
  EXPECT_EQ(told(clients.issue_for("serverAuth")), "untrusted\n") << "for servers";
}

TEST(ServerTls, AClientAuthorityThatCannotBeReadIsRefusedAtOnce) {
  const auto server =
      Server::start({.tls = true, .client_ca = "not PEM"}, [](const Request&, const Responder&) {});
  ASSERT_FALSE(server);
  EXPECT_EQ(server.error().code, ErrorCode::kInvalid);
}

TEST(ServerTls, ASilentHandshakeIsCutOff) {
  const TestCa ca("one");
  const auto server = start({.handshake = milliseconds(50)});
  const Pair pair = ca.issue(kName);
  ASSERT_TRUE(server->set_certificate(pair.certificate_pem, pair.key_pem));
  RawSocket client(server->port());
  EXPECT_EQ(client.read_all(), "");
}

TEST(ServerTls, PlainTextOnATlsPortHurtsNobody) {
  const TestCa ca("one");
  const auto server = start();
  const Pair pair = ca.issue(kName);
  ASSERT_TRUE(server->set_certificate(pair.certificate_pem, pair.key_pem));
  RawSocket client(server->port());
  client.send("GET / HTTP/1.1\r\n\r\n");
  client.read_all();
  EXPECT_TRUE(client_for(*server, ca.pem()).send({}));
}

}  // namespace
}  // namespace compilecache::http
