#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "http/server.hpp"
#include "http/session.hpp"
#include "tests/unit/http/certificates.hpp"
#include "tests/unit/http/raw_socket.hpp"

// The other side of a Session: servers on loopback, with manners and without.

namespace compilecache::http::testing {

inline constexpr char kRegistry[] = "registry.example.com";

template <typename T>
ErrorCode code_of_result(const Result<T>& result) {
  return result ? ErrorCode::kInternal : result.error().code;
}

template <typename T>
std::string message_of(const Result<T>& result) {
  return result ? "no error" : result.error().message;
}

// A body of any size without its memory: byte i is i modulo 251.
class Counting : public BodySource {
 public:
  explicit Counting(uint64_t size) : size_(size) {}
  [[nodiscard]] uint64_t size() const override { return size_; }
  Status read_at(std::span<uint8_t> bytes, uint64_t offset) override;
  // How far it was read.
  [[nodiscard]] uint64_t read() const { return read_; }

 private:
  const uint64_t size_;
  std::atomic<uint64_t> read_ = 0;
};
// The same as text.
std::string counted(size_t size);

// The result of a request: the answer's body, or the error.
Result<std::string> body_of(Session& session, const SessionRequest& request);
// The body, or the error's message.
std::string told(Session& session, const SessionRequest& request);

void say_ok(const Request&, const Responder& respond);

// A server with TLS and good manners that calls itself kRegistry.
class TlsSessionTest : public ::testing::Test {
 protected:
  void serve(Handler handler, const std::string& name = kRegistry, long good_for = 3600);
  [[nodiscard]] std::string host_port(const std::string& host = kRegistry) const {
    return host + ":" + std::to_string(server_->port());
  }
  [[nodiscard]] std::string url(const std::string& target = "/") const {
    return "https://" + host_port() + target;
  }
  // Which trust the server and find it.
  [[nodiscard]] SessionOptions options() const;

  TestCa ca_{"trusted"};
  std::unique_ptr<Server> server_;
};

// Reads a connection up to an empty line; sends everything.
std::string read_head(int fd);
void send_all(int fd, std::string_view bytes);
// Reads until the other side closes.
void read_to_the_end(int fd);

// "HTTP/1.1 200 OK ..." with that body.
std::string ok_answer(const std::string& body);

// Answers everything with `bytes` over TLS and hangs up, with a goodbye or without.
std::unique_ptr<RawServer> tls_parrot(const TestCa& ca, const std::string& name, std::string bytes,
                                      bool goodbye = true);

// The TLS server behind a proxy, which sees all bytes that go by.
class ThroughProxyTest : public TlsSessionTest {
 protected:
  ThroughProxyTest();
  // The proxy's answer to a CONNECT; after a 200 it connects to the server and passes bytes on.
  // Those from the server by `pass`, where there is one, which returns false to cut the connection.
  using Pass = std::function<bool(int client, std::string_view bytes)>;
  void start_proxy(const std::string& answer = "HTTP/1.1 200 OK\r\n\r\n", Pass pass = send_on);
  static bool send_on(int client, std::string_view bytes);
  [[nodiscard]] SessionOptions through(const std::string& user = "") const;
  // Ends the proxy and returns its requests.
  std::string asked();

  std::string asked_;
  std::unique_ptr<RawServer> proxy_;
};

// A server without TLS, whose every connection is a function's to serve.
class RawSessionTest : public ::testing::Test {
 protected:
  void serve(std::function<void(int fd)> serve) {
    server_ = std::make_unique<RawServer>(std::move(serve));
  }
  // Answers each connection's first request with these bytes and hangs up.
  void parrot(std::string bytes);
  [[nodiscard]] std::string host_port() const {
    return "127.0.0.1:" + std::to_string(server_->port());
  }
  [[nodiscard]] std::string url(const std::string& target = "/") const {
    return "http://" + host_port() + target;
  }
  [[nodiscard]] SessionOptions options() const;
  // With a session of its own.
  Result<std::string> fetch(const std::string& method = "GET");

  std::unique_ptr<RawServer> server_;
};

}  // namespace compilecache::http::testing
