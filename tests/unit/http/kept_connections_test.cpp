#include "http/session.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <future>
#include <set>
#include <thread>

#include "tests/unit/http/session_servers.hpp"

namespace compilecache::http::testing {
namespace {

using std::chrono::milliseconds;

TEST_F(TlsSessionTest, ConnectionsAreKept) {
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

TEST_F(RawSessionTest, AKeptConnectionThatWasClosedIsReplacedOnce) {
  std::atomic<int> connections = 0;
  serve([&](int fd) {
    const int number = ++connections;
    read_head(fd);
    send_all(fd, ok_answer("ok"));
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
    send_all(fd, ok_answer("ok"));
    read_head(fd);
    send_all(fd, "H");
  });
  Session session(options());
  EXPECT_TRUE(body_of(session, {.url = url()}));
  EXPECT_EQ(code_of_result(body_of(session, {.url = url()})), ErrorCode::kUnavailable);
  EXPECT_EQ(connections, 1);
}

TEST_F(RawSessionTest, AnAnswerLeftInTheMiddleClosesItsConnection) {
  std::atomic<int> connections = 0;
  serve([&](int fd) {
    ++connections;
    read_head(fd);
    send_all(fd, ok_answer("hello"));
    read_to_the_end(fd);
  });
  Session session(options());
  for (int i = 0; i < 2; ++i) {
    const auto answer = session.start({.url = url()});
    ASSERT_TRUE(answer) << answer.error().message;
    std::array<uint8_t, 2> some{};
    EXPECT_EQ(*(*answer)->read(some), 2U);
  }
  EXPECT_EQ(connections, 2);
}

TEST_F(RawSessionTest, WhatFollowsAnAnswerUnaskedIsNotTheNextOne) {
  std::atomic<int> connections = 0;
  serve([&](int fd) {
    const bool first = ++connections == 1;
    read_head(fd);
    send_all(fd, ok_answer("hello") + (first ? ok_answer("smuggled") : ""));
    read_to_the_end(fd);
  });
  Session session(options());
  for (int i = 0; i < 2; ++i) EXPECT_EQ(told(session, {.url = url()}), "hello");
  EXPECT_EQ(connections, 2);
}

TEST_F(RawSessionTest, WhatComesWhileNobodyAsksIsNotTheNextAnswer) {
  std::promise<void> sent;
  std::atomic<int> connections = 0;
  serve([&](int fd) {
    const bool first = ++connections == 1;
    read_head(fd);
    send_all(fd, ok_answer("hello"));
    if (first) {
      std::this_thread::sleep_for(milliseconds(20));  // so that the client has read that much
      send_all(fd, ok_answer("smuggled"));
      sent.set_value();
    }
    read_to_the_end(fd);
  });
  Session session(options());
  EXPECT_EQ(told(session, {.url = url()}), "hello");
  sent.get_future().wait();
  EXPECT_EQ(told(session, {.url = url()}), "hello");
  EXPECT_EQ(connections, 2);
}

TEST_F(TlsSessionTest, ConnectionsAreKeptAsLongAndAsManyAsIsSaid) {
  std::set<std::string> peers;
  serve([&](const Request& request, const Responder& respond) {
    peers.insert(request.peer);
    respond(text_response(200, "ok"));
  });
  SessionOptions options = this->options();
  options.idle_timeout = milliseconds(0);
  Session impatient(options);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(told(impatient, {.url = url()}), "ok\n");
  EXPECT_EQ(peers.size(), 2U);
  options = this->options();
  options.most_idle_connections = 0;
  Session forgetful(options);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(told(forgetful, {.url = url()}), "ok\n");
  EXPECT_EQ(peers.size(), 4U);
}

}  // namespace
}  // namespace compilecache::http::testing
