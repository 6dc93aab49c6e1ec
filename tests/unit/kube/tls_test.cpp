#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/streambuf.hpp>
#include <boost/asio/write.hpp>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "kube/ipv6_server.hpp"
#include "tests/unit/http/certificates.hpp"
#include "tests/unit/kube/server_test.hpp"

// TLS connections that are cut without the end that TLS has for it, authorities that change, and
// servers that are known by an IPv6 address.

namespace compilecache::kube {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

// What happens on one connection: one request is answered, word for word, and the connection cut.
struct Answer {
  std::string text;                           // empty: it is cut before the handshake
  const http::testing::TestCa* ca = nullptr;  // who signed the certificate; null: the usual one
};

class TlsServer {
 public:
  explicit TlsServer(std::vector<Answer> answers, std::string name = "localhost",
                     const char* address = "127.0.0.1")
      : answers_(std::move(answers)),
        name_(std::move(name)),
        acceptor_(io_, {asio::ip::make_address(address), 0}) {
    thread_ = std::thread([this] {
      for (const Answer& answer : answers_) serve(answer);
    });
  }
  ~TlsServer() {
    ::shutdown(acceptor_.native_handle(), SHUT_RDWR);
    thread_.join();
  }

  [[nodiscard]] Client client() const { return client({.data = ca.pem()}); }
  [[nodiscard]] Client client(const PemSource& trusted) const {
    Config config;
    config.source = "the test";
    config.server = "https://localhost:" + std::to_string(acceptor_.local_endpoint().port());
    config.ca = trusted;
    return Client(*make_transport(config));
  }

  [[nodiscard]] uint16_t port() const { return acceptor_.local_endpoint().port(); }
  // Of the last one, header and all.
  [[nodiscard]] std::string request() const {
    const std::lock_guard guard(mutex_);
    return request_;
  }

  const http::testing::TestCa ca{"test CA"};

 private:
  void serve(const Answer& answer) {
    asio::ip::tcp::socket socket(io_);
    error_code ignored;
    if (acceptor_.accept(socket, ignored) || answer.text.empty()) return;
    const auto pair = (answer.ca == nullptr ? ca : *answer.ca).issue(name_);
    asio::ssl::context context(asio::ssl::context::tls_server);
    context.use_certificate_chain(asio::buffer(pair.certificate_pem));
    context.use_private_key(asio::buffer(pair.key_pem), asio::ssl::context::pem);
    asio::ssl::stream<asio::ip::tcp::socket&> tls(socket, context);
    tls.handshake(asio::ssl::stream_base::server, ignored);
    asio::streambuf request;
    asio::read_until(tls, request, "\r\n\r\n", ignored);
    {
      const std::lock_guard guard(mutex_);
      request_ = {asio::buffers_begin(request.data()), asio::buffers_end(request.data())};
    }
    asio::write(tls, asio::buffer(answer.text), ignored);
    socket.shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
  }

  const std::vector<Answer> answers_;
  const std::string name_;
  asio::io_context io_;
  asio::ip::tcp::acceptor acceptor_;
  mutable std::mutex mutex_;
  std::string request_;
  std::thread thread_;
};

constexpr char kGoodAnswer[] =
    "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 14\r\n\r\n{\"name\":\"web\"}";
constexpr char kChunked[] = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

TEST(TlsCut, AReadIsTriedAgain) {
  const TlsServer server(
      std::vector<Answer>{{kChunked + std::string("20\r\n{\"metadata\":")}, {kGoodAnswer}});
  const auto got = server.client().get(resources::kNodes, "", "n");
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(*got, (Json{{"name", "web"}}));
}

TEST(TlsCut, AWatchEndsAsBrokenWithoutTheHalfLine) {
  const TlsServer server(std::vector<Answer>{{kChunked + std::string("4\r\none\n\r\n20\r\ntw")}});
  std::vector<std::string> lines;
  const StreamEnd end = server.client().watch(
      resources::kNodes, {},
      [&](std::string_view line) {
        lines.emplace_back(line);
        return true;
      },
      Cancellation());
  EXPECT_EQ(end.kind, StreamEnd::Kind::kBroken) << end.message;
  EXPECT_EQ(lines, std::vector<std::string>{"one"});
}

TEST(TlsCut, BeforeTheHandshakeThereIsNoServer) {
  const TlsServer server(std::vector<Answer>{{""}});
  const auto got = server.client().get(resources::kNodes, "", "n");
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, ErrorCode::kUnavailable) << got.error().message;
}

class Ipv6Literal : public ::testing::Test {
 protected:
  void SetUp() override {
    asio::io_context io;
    asio::ip::tcp::acceptor acceptor(io, asio::ip::tcp::v6());
    error_code error;
    acceptor.bind({asio::ip::address_v6::loopback(), 0}, error);
    if (error) GTEST_SKIP() << "this machine has no IPv6";
  }
};

Config at_ipv6(const TlsServer& server) {
  Config config;
  config.source = "the test";
  config.server = "https://[::1]:" + std::to_string(server.port());
  config.ca = {.data = server.ca.pem()};
  return config;
}

Result<Json> get_node(const Config& config) {
  return Client(*make_transport(config))
      .with_timeout(std::chrono::seconds(30), 0)
      .get(resources::kNodes, "", "n");
}

TEST_F(Ipv6Literal, TheServerProvesItsAddress) {
  const TlsServer server({{kGoodAnswer}}, "::1", "::1");
  const auto got = get_node(at_ipv6(server));
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_THAT(server.request(),
              ::testing::HasSubstr("Host:[::1]:" + std::to_string(server.port()) + "\r\n"));
}

TEST_F(Ipv6Literal, ACertificateOfAnotherAddressOrAuthorityIsRefused) {
  const http::testing::TestCa stranger("another CA");
  const TlsServer elsewhere({{kGoodAnswer}}, "::2", "::1");
  const TlsServer named({{kGoodAnswer}}, "localhost", "::1");
  const TlsServer strange({{kGoodAnswer, &stranger}}, "::1", "::1");
  for (const TlsServer* server : {&elsewhere, &named, &strange}) {
    const auto got = get_node(at_ipv6(*server));
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().code, ErrorCode::kUnavailable) << got.error().message;
    EXPECT_EQ(server->request(), "") << "the token would be in it";
  }
}

TEST_F(Ipv6Literal, TheNameToProveCanBeGiven) {
  const TlsServer server({{kGoodAnswer}}, "localhost", "::1");
  Config config = at_ipv6(server);
  config.tls_server_name = "localhost";
  const auto got = get_node(config);
  EXPECT_TRUE(got) << got.error().message;
}

TEST_F(Ipv6Literal, WithoutProofWhereTheUserSaysSo) {
  const TlsServer server({{kGoodAnswer}}, "localhost", "::1");
  Config config = at_ipv6(server);
  config.insecure_skip_tls_verify = true;
  EXPECT_TRUE(get_node(config));
}

TEST(Ipv6Server, AUrlIsTakenApart) {
  const auto server = ipv6_server("https://[fd00::1]/k8s/");
  ASSERT_TRUE(server);
  EXPECT_EQ(server->address, "fd00::1");
  EXPECT_EQ(server->host_header, "[fd00::1]");
  EXPECT_EQ(server->bare_url, "https://fd00::1:443/k8s/");
  EXPECT_EQ(ipv6_server("http://[::1]")->bare_url, "http://::1:80");
  EXPECT_EQ(ipv6_server("http://[::1]:8001")->host_header, "[::1]:8001");
  for (const char* other :
       {"https://10.0.0.1:6443", "https://a.example", "https://[::1", "https://[]",
        "https://[::1]x", "https://[::1]:", "https://[fe80::1%25eth0]:6443"}) {
    EXPECT_FALSE(ipv6_server(other)) << other;
  }
  Config config;
  config.server = "https://[::1";
  EXPECT_EQ(make_transport(config).error().code, ErrorCode::kInvalid);
}

TEST(TlsAuthority, ANewOneInTheFileIsTrustedByTheNextConnection) {
  const http::testing::TestCa next("next CA");
  const TlsServer server(
      std::vector<Answer>{{kGoodAnswer}, {kGoodAnswer, &next}, {kGoodAnswer, &next}});
  const std::string file = ::testing::TempDir() + "/kube-tls-ca.crt";
  std::ofstream(file) << server.ca.pem();
  const Client client = server.client({.file = file}).with_timeout(std::chrono::seconds(30), 0);
  EXPECT_TRUE(client.get(resources::kNodes, "", "n"));
  EXPECT_EQ(client.get(resources::kNodes, "", "n").error().code, ErrorCode::kUnavailable);
  std::ofstream(file) << server.ca.pem() << next.pem();
  const auto got = client.get(resources::kNodes, "", "n");
  EXPECT_TRUE(got) << got.error().message;
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace compilecache::kube
