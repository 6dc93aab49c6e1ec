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
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/http/certificates.hpp"
#include "tests/unit/kube/server_test.hpp"

// TLS connections that are cut without the end that TLS has for it, and authorities that change.

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
  explicit TlsServer(std::vector<Answer> answers) : answers_(std::move(answers)) {
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

  const http::testing::TestCa ca{"test CA"};

 private:
  void serve(const Answer& answer) {
    asio::ip::tcp::socket socket(io_);
    error_code ignored;
    if (acceptor_.accept(socket, ignored) || answer.text.empty()) return;
    const auto pair = (answer.ca == nullptr ? ca : *answer.ca).issue("localhost");
    asio::ssl::context context(asio::ssl::context::tls_server);
    context.use_certificate_chain(asio::buffer(pair.certificate_pem));
    context.use_private_key(asio::buffer(pair.key_pem), asio::ssl::context::pem);
    asio::ssl::stream<asio::ip::tcp::socket&> tls(socket, context);
    tls.handshake(asio::ssl::stream_base::server, ignored);
    asio::streambuf request;
    asio::read_until(tls, request, "\r\n\r\n", ignored);
    asio::write(tls, asio::buffer(answer.text), ignored);
    socket.shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
  }

  const std::vector<Answer> answers_;
  asio::io_context io_;
  asio::ip::tcp::acceptor acceptor_{io_, {asio::ip::make_address("127.0.0.1"), 0}};
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
