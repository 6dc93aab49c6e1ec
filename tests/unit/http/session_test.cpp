#include "http/session.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <semaphore>
#include <thread>

#include "tests/unit/http/session_servers.hpp"

namespace compilecache::http::testing {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(TlsSessionTest, SendsWhatItIsToldAndReturnsTheAnswer) {
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

TEST_F(TlsSessionTest, StreamsBodiesBothWays) {
  serve([](Request request, const Responder& respond) {
    respond(Response{.body = std::move(request.body)});
  });
  Session session(options());
  Counting body(5 << 20);
  const auto echoed = body_of(session, {.method = "PUT", .url = url(), .source = &body});
  ASSERT_TRUE(echoed) << echoed.error().message;
  EXPECT_TRUE(*echoed == counted(5 << 20));
}

TEST_F(TlsSessionTest, TheErrorOfASourceIsThatOfTheRequest) {
  struct Broken : BodySource {
    uint64_t size() const override { return 1U << 20; }
    Status read_at(std::span<uint8_t>, uint64_t) override {
      return fail(ErrorCode::kIo, "the disk is full");
    }
  };
  serve(say_ok);
  Broken body;
  Session session(options());
  const auto answer = session.start({.method = "PUT", .url = url(), .source = &body});
  EXPECT_EQ(code_of_result(answer), ErrorCode::kIo);
  EXPECT_EQ(message_of(answer), "the disk is full");
}

TEST_F(TlsSessionTest, ARefusalWhileTheBodyIsBeingSentIsHeard) {
  serve(say_ok);  // which takes 7 MiB
  Counting body(1ULL << 40);
  Session session(options());
  const auto answer = session.start({.method = "PUT", .url = url(), .source = &body});
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ((*answer)->status(), 413);
  EXPECT_LT(body.read(), 1ULL << 30);
}

TEST_F(TlsSessionTest, SeveralThreadsShareASession) {
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

TEST_F(RawSessionTest, AnEarly401IsTheAnswer) {
  for (const bool reads_on : {false, true}) {
    const auto given_up = std::make_shared<std::counting_semaphore<>>(0);
    serve([reads_on, given_up](int fd) {
      if (read_head(fd).starts_with("GET")) return send_all(fd, ok_answer("anew"));
      send_all(fd, "HTTP/1.1 401 Unauthorized\r\nContent-Length: 4\r\n\r\nwho?");
      if (reads_on) read_to_the_end(fd);
      given_up->release();
    });
    Session session(options());
    Counting body(1ULL << 30);
    {
      const auto answer = session.start({.method = "PUT", .url = url(), .source = &body});
      ASSERT_TRUE(answer) << answer.error().message;
      EXPECT_EQ((*answer)->status(), 401);
      EXPECT_EQ(*read_all(**answer, 100), "who?");
    }
    EXPECT_LT(body.read(), 1ULL << 30);
    // The rest of the body would have to be sent first on the same connection.
    EXPECT_TRUE(given_up->try_acquire_for(std::chrono::seconds(30)));
    EXPECT_EQ(told(session, {.url = url()}), "anew");
  }
}

TEST_F(RawSessionTest, PlainHttpIsSpokenToListedHostsAlone) {
  serve([](int) { ADD_FAILURE() << "it was asked"; });
  Session session(SessionOptions{});
  const auto answer = session.start({.url = url()});
  EXPECT_EQ(code_of_result(answer), ErrorCode::kInvalid);
  EXPECT_THAT(message_of(answer), HasSubstr(host_port()));
}

TEST_F(RawSessionTest, NobodyThereIsUnavailable) {
  parrot("");
  const SessionOptions options = this->options();
  const std::string there = url("/v2/?signature=x");
  server_.reset();
  const auto answer = Session(options).start({.method = "HEAD", .url = there});
  EXPECT_EQ(code_of_result(answer), ErrorCode::kUnavailable);
  EXPECT_THAT(message_of(answer), HasSubstr("HEAD " + there.substr(0, there.find('?')) + ": "));
  EXPECT_THAT(message_of(answer), HasSubstr("refused"));
  EXPECT_THAT(message_of(answer), Not(HasSubstr("signature")));
}

TEST_F(RawSessionTest, ANameIsResolved) {
  parrot(ok_answer("hello"));
  const std::string host_port = "localhost:" + std::to_string(server_->port());
  SessionOptions options = this->options();
  options.plain_hosts = {host_port};
  Session session(options);
  EXPECT_EQ(told(session, {.url = "http://" + host_port + "/"}), "hello");
  const auto unknown = session.start({.url = "https://no-such-host.invalid/"});
  EXPECT_EQ(code_of_result(unknown), ErrorCode::kUnavailable);
  EXPECT_THAT(message_of(unknown), HasSubstr("no-such-host.invalid"));
}

TEST_F(RawSessionTest, ARequestThatCannotBeSentIsInvalid) {
  serve([](int) { ADD_FAILURE() << "it was asked"; });
  const std::string there = url();
  const SessionRequest requests[] = {
      {.url = "registry.example.com/v2/"},
      {.url = "https://user:secret@registry.example.com/"},
      {.method = "GET /x HTTP/1.1\r\nHost: y\r\n\r\nGET", .url = there},
      {.method = "", .url = there},
      {.url = there, .headers = {{"Authorization", "Bearer secret\r\nX: y"}}},
      {.url = there, .headers = {{"Authorization", std::string("secret\0", 7)}}},
      {.url = there, .headers = {{"X: y\r\nZ", "secret"}}},
      {.url = there, .headers = {{"content-length", "3"}}},
      {.url = there, .headers = {{"Host", "other"}}},
  };
  Session session(options());
  for (const auto& request : requests) {
    const auto answer = session.start(request);
    EXPECT_EQ(code_of_result(answer), ErrorCode::kInvalid) << request.url;
    EXPECT_THAT(message_of(answer), Not(HasSubstr("secret")));
  }
  SessionOptions options = this->options();
  options.fixed_host = host_port();
  options.fixed_address = "localhost";
  EXPECT_EQ(code_of_result(Session(options).start({.url = there})), ErrorCode::kInvalid);
}

TEST_F(RawSessionTest, NothingIsAskedAfterTheDeadline) {
  serve([](int fd) { EXPECT_EQ(read_head(fd), ""); });
  const auto answer = Session(options()).start(
      {.url = url(), .deadline = std::chrono::steady_clock::now() - milliseconds(1)});
  EXPECT_EQ(code_of_result(answer), ErrorCode::kTimeout);
}

}  // namespace
}  // namespace compilecache::http::testing
