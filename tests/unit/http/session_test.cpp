#include "http/session.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <memory>
#include <thread>

#include "http/server.hpp"
#include "tests/unit/http/certificates.hpp"
#include "tests/unit/http/raw_socket.hpp"

namespace compilecache::http {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Pair;
using testing::RawServer;
using testing::TestCa;

constexpr char kHost[] = "registry.example.com";

template <typename T>
ErrorCode code_of(const Result<T>& result) {
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
  uint64_t size() const override { return size_; }
  Status read_at(std::span<uint8_t> bytes, uint64_t offset) override {
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>((offset + i) % 251);
    read_ = std::max(read_.load(), offset + bytes.size());
    return {};
  }
  uint64_t read() const { return read_; }

 private:
  const uint64_t size_;
  std::atomic<uint64_t> read_ = 0;
};

std::string counted(size_t size) {
  std::string text(size, '\0');
  for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i % 251);
  return text;
}

// What came of a request: the answer's body, or the error.
Result<std::string> body_of(Session& session, const SessionRequest& request) {
  auto answer = session.start(request);
  if (!answer) return unexpected(answer.error());
  return read_all(**answer, 64U << 20);
}

// A server that does TLS and HTTP properly.
class SessionTest : public ::testing::Test {
 protected:
  void serve(Handler handler, const std::string& name = kHost, long good_for = 3600) {
    auto server = Server::start({.address = "127.0.0.1", .tls = true}, std::move(handler));
    ASSERT_TRUE(server) << server.error().message;
    server_ = std::move(*server);
    const Pair pair = ca_.issue(name, good_for);
    ASSERT_TRUE(server_->set_certificate(pair.certificate_pem, pair.key_pem));
  }
  std::string host_port(const std::string& host = kHost) const {
    return host + ":" + std::to_string(server_->port());
  }
  std::string url(const std::string& target = "/") const {
    return "https://" + host_port() + target;
  }
  SessionOptions options(const std::string& host = kHost) const {
    return {.ca_pem = ca_.pem(),
            .system_authorities = false,
            .fixed_host = host_port(host),
            .fixed_address = "127.0.0.1",
            .connect_timeout = seconds(30),
            .stall_timeout = seconds(30)};
  }

  TestCa ca_{"trusted"};
  std::unique_ptr<Server> server_;
};

void say_ok(const Request&, const Responder& respond) { respond(text_response(200, "ok")); }

TEST_F(SessionTest, SendsWhatItIsToldAndReturnsTheAnswer) {
  serve([](const Request& request, const Responder& respond) {
    respond(Response{.status = 409,
                     .body = request.method + " " + request.path + " " + request.query + " " +
                             std::string(request.header("Host").value_or("")) + " " +
                             std::string(request.header("X-Some").value_or("")) + " " +
                             request.body,
                     .headers = {{"Retry-After", "3"}}});
  });
  Session session(options());
  const auto answer = session.start({.method = "PUT",
                                     .url = url("/v2/a/blobs?digest=sha256:1"),
                                     .headers = {{"X-Some", "thing"}},
                                     .body = "{}"});
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ((*answer)->status(), 409);
  EXPECT_EQ((*answer)->header("retry-after"), "3");
  EXPECT_EQ((*answer)->url(), url("/v2/a/blobs?digest=sha256:1"));
  EXPECT_EQ(*read_all(**answer, 1000),
            "PUT /v2/a/blobs digest=sha256:1 " + host_port() + " thing {}");
}

TEST_F(SessionTest, StreamsBodiesBothWays) {
  serve([](Request request, const Responder& respond) {
    respond(Response{.body = std::move(request.body)});
  });
  Session session(options());
  Counting body(5 << 20);
  const auto echoed = body_of(session, {.method = "PUT", .url = url(), .source = &body});
  ASSERT_TRUE(echoed) << echoed.error().message;
  EXPECT_TRUE(*echoed == counted(5 << 20));
}

TEST_F(SessionTest, TheErrorOfASourceIsThatOfTheRequest) {
  struct Broken : BodySource {
    uint64_t size() const override { return 1U << 20; }
    Status read_at(std::span<uint8_t>, uint64_t) override {
      return fail(ErrorCode::kIo, "the disk is gone");
    }
  };
  serve(say_ok);
  Broken body;
  Session session(options());
  const auto answer = session.start({.method = "PUT", .url = url(), .source = &body});
  EXPECT_EQ(code_of(answer), ErrorCode::kIo);
  EXPECT_EQ(message_of(answer), "the disk is gone");
}

TEST_F(SessionTest, ConnectionsAreKept) {
  std::atomic<int> served = 0;
  std::string peer;
  serve([&](const Request& request, const Responder& respond) {
    if (peer.empty()) peer = request.peer;
    EXPECT_EQ(request.peer, peer);
    ++served;
    respond(request.method == "DELETE" ? Response{.status = 204} : text_response(200, "ok"));
  });
  Session session(options());
  for (const char* method : {"GET", "HEAD", "DELETE", "POST", "GET"}) {
    const auto body = body_of(session, {.method = method, .url = url()});
    EXPECT_TRUE(body) << message_of(body);
  }
  EXPECT_EQ(served, 5);
}

TEST_F(SessionTest, ARefusalWhileTheBodyIsBeingSentIsHeard) {
  serve(say_ok);  // which takes 7 MiB
  Counting body(1ULL << 40);
  Session session(options());
  const auto answer = session.start({.method = "PUT", .url = url(), .source = &body});
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ((*answer)->status(), 413);
  EXPECT_LT(body.read(), 1ULL << 30);
}

TEST_F(SessionTest, AServerThatCannotProveWhoItIsGetsNothing) {
  struct {
    std::string name;
    long good_for;
    bool known;
    const char* why;
  } const cases[] = {{"other.example.com", 3600, true, "hostname mismatch"},
                     {kHost, -60, true, "expired"},
                     {kHost, 3600, false, "unable to get local issuer certificate"}};
  for (const auto& one : cases) {
    serve([](const Request&, const Responder&) { ADD_FAILURE() << "it was asked"; }, one.name,
          one.good_for);
    SessionOptions options = this->options();
    if (!one.known) options.ca_pem = TestCa("another").pem();
    const auto answer = Session(options).start({.url = url()});
    EXPECT_EQ(code_of(answer), ErrorCode::kUnauthorized) << one.why;
    EXPECT_THAT(message_of(answer), HasSubstr(kHost));
    EXPECT_THAT(message_of(answer), HasSubstr(one.why));
  }
}

TEST_F(SessionTest, AnAddressIsProvedByTheCertificatesAddresses) {
  serve(say_ok, "127.0.0.1");
  SessionOptions options = this->options();
  options.fixed_host.clear();
  Session session(options);
  const auto body = body_of(session, {.url = "https://" + host_port("127.0.0.1") + "/"});
  EXPECT_TRUE(body) << message_of(body);
}

TEST_F(SessionTest, SeveralThreadsShareASession) {
  serve([](Request request, const Responder& respond) {
    respond(Response{.body = std::move(request.body)});
  });
  Session session(options());
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      for (int j = 0; j < 10; ++j) {
        const std::string text = std::to_string(i * 1000 + j);
        const auto body = body_of(session, {.method = "POST", .url = url(), .body = text});
        EXPECT_EQ(body.value_or(message_of(body)), text);
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

// A server whose every connection is a function's to serve, without TLS.
class RawSessionTest : public ::testing::Test {
 protected:
  void serve(std::function<void(int)> serve) {
    server_ = std::make_unique<RawServer>(std::move(serve));
  }
  // Answers each connection's first request with these bytes and hangs up.
  void parrot(std::string bytes) {
    serve([bytes = std::move(bytes)](int fd) {
      read_head(fd);
      send_all(fd, bytes);
    });
  }
  static std::string read_head(int fd) {
    std::string head;
    char byte = 0;
    while (!head.ends_with("\r\n\r\n") && recv(fd, &byte, 1, 0) == 1) head += byte;
    return head;
  }
  static void send_all(int fd, std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
  }
  std::string host_port() const { return "127.0.0.1:" + std::to_string(server_->port()); }
  std::string url(const std::string& target = "/") const {
    return "http://" + host_port() + target;
  }
  SessionOptions options() const {
    return {
        .plain_hosts = {host_port()}, .connect_timeout = seconds(30), .stall_timeout = seconds(30)};
  }
  Result<std::string> fetch(const std::string& method = "GET") {
    Session session(options());
    return body_of(session, {.method = method, .url = url()});
  }

  std::unique_ptr<RawServer> server_;
};

TEST_F(RawSessionTest, BodiesEndAsTheirHeadSays) {
  const std::pair<const char*, std::string> cases[] = {
      {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "hello"},
      {"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", ""},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;a=b\r\nlo\r\n0\r\n\r\n",
       "hello"},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nA: b\r\n\r\n",
       "hello"},
      {"HTTP/1.0 200 OK\r\n\r\nhello", "hello"},
      {"HTTP/1.1 204 No Content\r\n\r\n", ""},
      {"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", ""},
      {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", "hi"},
  };
  for (const auto& [bytes, body] : cases) {
    parrot(bytes);
    const auto fetched = fetch();
    EXPECT_EQ(fetched.value_or(message_of(fetched)), body) << bytes;
  }
  parrot("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
  const auto nothing = fetch("HEAD");
  EXPECT_EQ(nothing.value_or(message_of(nothing)), "");
}

TEST_F(RawSessionTest, WhatIsNotHttpIsCorrupt) {
  const std::string large = "X: " + std::string(1000, 'x') + "\r\n";
  std::string endless;
  for (int i = 0; i < 100; ++i) endless += large;
  const std::string cases[] = {
      "SSH-2.0-OpenSSH_9.2\r\n",
      "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
      "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nhello",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nhello",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhello",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
      "HTTP/1.1 101 Switching Protocols\r\n\r\n",
      "HTTP/1.1 200 OK\r\n" + endless + "\r\n",
      "HTTP/1.1 200 OK\r\nX: " + std::string(100000, 'x') + "\r\n\r\n",
  };
  for (const auto& bytes : cases) {
    parrot(bytes);
    EXPECT_EQ(code_of(fetch()), ErrorCode::kCorrupt) << bytes.substr(0, 80);
  }
}

// Whatever of an exchange comes through: the whole answer, or none.
TEST_F(RawSessionTest, AnAnswerCutAtAnyByteIsNoAnswer) {
  const std::string whole[] = {
      "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n",
  };
  for (const auto& bytes : whole) {
    for (size_t cut = 0; cut <= bytes.size(); ++cut) {
      parrot(bytes.substr(0, cut));
      const auto fetched = fetch();
      if (cut == bytes.size()) {
        EXPECT_EQ(fetched.value_or(message_of(fetched)), "hello");
      } else {
        EXPECT_EQ(code_of(fetched), ErrorCode::kUnavailable) << "after " << cut << " bytes";
      }
    }
  }
}

TEST_F(RawSessionTest, AServerThatStallsEndsByTheStallTimeout) {
  const std::string whole = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
  for (const size_t sent : {size_t{0}, size_t{20}, whole.size() - 2}) {
    serve([&](int fd) {
      read_head(fd);
      send_all(fd, whole.substr(0, sent));
      char byte = 0;
      recv(fd, &byte, 1, 0);  // until the client has gone
    });
    SessionOptions options = this->options();
    options.stall_timeout = milliseconds(50);
    Session session(options);
    const auto body = body_of(session, {.url = url()});
    EXPECT_EQ(code_of(body), ErrorCode::kTimeout) << sent;
    EXPECT_THAT(message_of(body), HasSubstr("50 ms"));
  }
}

TEST_F(RawSessionTest, AServerThatTricklesEndsByTheDeadline) {
  serve([&](int fd) {
    read_head(fd);
    send_all(fd, "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n");
    for (char byte = 0; send(fd, &byte, 1, MSG_NOSIGNAL) == 1;) {
      std::this_thread::sleep_for(milliseconds(5));
    }
  });
  Session session(options());
  const auto body = body_of(
      session, {.url = url(), .deadline = std::chrono::steady_clock::now() + milliseconds(100)});
  EXPECT_EQ(code_of(body), ErrorCode::kTimeout);
  EXPECT_THAT(message_of(body), HasSubstr("the time for it is up"));
}

TEST_F(RawSessionTest, AServerThatTakesNothingEndsByTheStallTimeout) {
  serve([](int fd) {
    std::vector<char> bytes(1U << 20);
    // Takes nothing for ten times as long; then reads what was sent, to see the client go.
    std::this_thread::sleep_for(milliseconds(500));
    while (recv(fd, bytes.data(), bytes.size(), 0) > 0) continue;
  });
  SessionOptions options = this->options();
  options.stall_timeout = milliseconds(50);
  Session session(options);
  Counting body(1ULL << 30);
  const auto answer = session.start({.method = "PUT", .url = url(), .source = &body});
  EXPECT_EQ(code_of(answer), ErrorCode::kTimeout);
}

TEST_F(RawSessionTest, AnEarly401IsTheAnswer) {
  for (const bool reads_on : {false, true}) {
    serve([&](int fd) {
      read_head(fd);
      send_all(fd, "HTTP/1.1 401 Unauthorized\r\nContent-Length: 4\r\n\r\nwho?");
      char bytes[4096];
      while (reads_on && recv(fd, bytes, sizeof bytes, 0) > 0) continue;
    });
    Session session(options());
    Counting body(1ULL << 30);
    const auto answer = session.start({.method = "PUT", .url = url(), .source = &body});
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_EQ((*answer)->status(), 401);
    EXPECT_EQ(*read_all(**answer, 100), "who?");
    EXPECT_LT(body.read(), 1ULL << 30);
  }
}

TEST_F(RawSessionTest, AKeptConnectionThatWasClosedIsReplacedOnce) {
  std::atomic<int> connections = 0;
  serve([&](int fd) {
    const int number = ++connections;
    read_head(fd);
    send_all(fd, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    if (number > 1) return;
    read_head(fd);  // a second request, and no answer
  });
  Session session(options());
  for (int i = 0; i < 3; ++i) {
    const auto body = body_of(session, {.method = "POST", .url = url(), .body = "x"});
    EXPECT_EQ(body.value_or(message_of(body)), "ok");
  }
  EXPECT_EQ(connections, 3);
}

TEST_F(RawSessionTest, OnceSomethingOfAnAnswerCameNothingIsRepeated) {
  std::atomic<int> connections = 0;
  serve([&](int fd) {
    ++connections;
    read_head(fd);
    send_all(fd, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    read_head(fd);
    send_all(fd, "H");
  });
  Session session(options());
  EXPECT_TRUE(body_of(session, {.url = url()}));
  EXPECT_EQ(code_of(body_of(session, {.url = url()})), ErrorCode::kUnavailable);
  EXPECT_EQ(connections, 1);
}

TEST_F(RawSessionTest, PlainHttpIsSpokenToListedHostsAlone) {
  serve([](int) { ADD_FAILURE() << "it was asked"; });
  Session session(SessionOptions{});
  const auto answer = session.start({.url = url()});
  EXPECT_EQ(code_of(answer), ErrorCode::kInvalid);
  EXPECT_THAT(message_of(answer), HasSubstr(host_port()));
}

}  // namespace
}  // namespace compilecache::http
