#include "http/session.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <future>
#include <thread>

#include "tests/unit/http/session_servers.hpp"

namespace compilecache::http::testing {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::Not;

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
    EXPECT_EQ(code_of_result(fetch()), ErrorCode::kCorrupt) << bytes.substr(0, 80);
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
        EXPECT_EQ(code_of_result(fetched), ErrorCode::kUnavailable) << "after " << cut << " bytes";
      }
    }
  }
}

TEST_F(RawSessionTest, AServerThatStallsEndsByTheStallTimeout) {
  const std::string whole = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
  for (const size_t sent : {size_t{0}, size_t{20}, whole.size() - 2}) {
    serve([sent, &whole](int fd) {
      read_head(fd);
      send_all(fd, whole.substr(0, sent));
      read_to_the_end(fd);
    });
    SessionOptions options = this->options();
    options.stall_timeout = milliseconds(50);
    Session session(options);
    const auto body = body_of(session, {.url = url()});
    EXPECT_EQ(code_of_result(body), ErrorCode::kTimeout) << sent;
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
  EXPECT_EQ(code_of_result(body), ErrorCode::kTimeout);
  EXPECT_THAT(message_of(body), HasSubstr("the time for it is up"));
}

TEST_F(RawSessionTest, AServerThatTakesNothingEndsByTheStallTimeout) {
  std::promise<void> given_up;
  serve([&](int) { given_up.get_future().wait(); });
  SessionOptions options = this->options();
  options.stall_timeout = milliseconds(50);
  Session session(options);
  Counting body(1ULL << 30);
  const auto answer = session.start({.method = "PUT", .url = url(), .source = &body});
  given_up.set_value();
  server_.reset();
  EXPECT_EQ(code_of_result(answer), ErrorCode::kTimeout);
}

// Bytes that come too slowly for a whole record within the stall's time are bytes all the same. On
// a machine with much else to do there may be no byte for that long: it gets more time then.
TEST_F(ThroughProxyTest, ASlowServerIsNotAStalledOne) {
  std::atomic<bool> slowly = false;
  serve([&](const Request&, const Responder& respond) {
    slowly = true;
    respond(text_response(200, std::string(150, 'x')));
  });
  Result<std::string> body;
  for (const milliseconds stall : {milliseconds(500), milliseconds(5000), milliseconds(30000)}) {
    slowly = false;
    start_proxy("HTTP/1.1 200 OK\r\n\r\n", [&slowly, stall](int client, auto bytes) {
      if (!slowly) return send_on(client, bytes);
      for (const char byte : bytes) {
        send_all(client, {&byte, 1});
        std::this_thread::sleep_for(stall / 75);  // twice the stall in all
      }
      return true;
    });
    SessionOptions options = through();
    options.stall_timeout = stall;
    Session session(options);
    body = body_of(session, {.url = url()});
    if (body) break;
    EXPECT_EQ(body.error().code, ErrorCode::kTimeout);
  }
  EXPECT_EQ(body.value_or(message_of(body)), std::string(150, 'x') + "\n");
}

// The same over TLS: in the handshake, in the head or in the body.
TEST_F(ThroughProxyTest, AConnectionCutAtAnyByteIsNoAnswer) {
  for (size_t cut = 0;; cut += 7) {
    start_proxy("HTTP/1.1 200 OK\r\n\r\n", [left = cut](int client, auto bytes) mutable {
      send_all(client, bytes.substr(0, left));
      const bool enough = left >= bytes.size();
      left -= std::min(left, bytes.size());
      return enough;
    });
    Session session(through());
    const auto body = body_of(session, {.url = url()});
    if (body) {
      EXPECT_EQ(*body, "from " + host_port() + "\n");
      EXPECT_GT(cut, 500U);
      break;
    }
    EXPECT_EQ(body.error().code, ErrorCode::kUnavailable) << body.error().message;
    ASSERT_LT(cut, 100000U);
  }
}

TEST_F(TlsSessionTest, AnAnswerWithoutLengthEndsWithAGoodbye) {
  const std::string bytes = "HTTP/1.1 200 OK\r\n\r\nhello";
  for (const bool goodbye : {true, false}) {
    const auto server = tls_parrot(ca_, kRegistry, bytes, goodbye);
    const std::string host_port = kRegistry + (":" + std::to_string(server->port()));
    Session session({.ca_pem = ca_.pem(),
                     .system_authorities = false,
                     .fixed_host = host_port,
                     .fixed_address = "127.0.0.1"});
    const auto body = body_of(session, {.url = "https://" + host_port});
    if (goodbye) {
      EXPECT_EQ(body.value_or(message_of(body)), "hello");
    } else {
      EXPECT_EQ(code_of_result(body), ErrorCode::kUnavailable);
    }
  }
}

TEST_F(RawSessionTest, AnUploadCutAtAnyByteIsNoAnswer) {
  for (size_t most = 0; most < 400; ++most) {
    serve([most](int fd) {
      std::vector<char> bytes(most + 1);
      size_t left = most;
      while (left > 0) {
        const ssize_t got = recv(fd, bytes.data(), left, 0);
        if (got <= 0) break;
        left -= static_cast<size_t>(got);
      }
    });
    Session session(options());
    Counting body(1U << 20);
    const auto answer = session.start({.method = "PUT", .url = url(), .source = &body});
    EXPECT_EQ(code_of_result(answer), ErrorCode::kUnavailable) << most;
  }
}

TEST_F(RawSessionTest, AnAnswerOverTheReadersLimitIsTooLarge) {
  parrot(ok_answer("hello"));
  Session session(options());
  const auto again = session.start({.url = url("/path?signature=x")});
  ASSERT_TRUE(again) << again.error().message;
  const auto body = read_all(**again, 4);
  EXPECT_EQ(code_of_result(body), ErrorCode::kTooLarge);
  EXPECT_THAT(message_of(body), HasSubstr(url("/path")));
  EXPECT_THAT(message_of(body), Not(HasSubstr("signature")));
}

}  // namespace
}  // namespace compilecache::http::testing
