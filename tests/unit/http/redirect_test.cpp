#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>

#include "tests/unit/http/session_servers.hpp"

// Where a Session lets itself be led, and what it tells whom on the way.

namespace compilecache::http::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string redirect_to(const std::string& location, int status = 307) {
  return "HTTP/1.1 " + std::to_string(status) + " Elsewhere\r\nLocation: " + location +
         "\r\nContent-Length: 4\r\n\r\ngone";
}

// A second server, and a session that may speak to both.
class RedirectTest : public RawSessionTest {
 protected:
  // Redirects everything from the first server to /end of the second.
  void redirect(int status = 307) {
    other_ = std::make_unique<RawServer>([this](int fd) {
      heard_ += read_head(fd);
      send_all(fd, ok_answer("the end"));
    });
    parrot(redirect_to(other_url("/end"), status));
    session_ = std::make_unique<Session>(both());
  }
  SessionOptions both() const {
    SessionOptions options = this->options();
    if (other_) options.plain_hosts.push_back(other_host_port());
    return options;
  }
  std::string other_host_port() const { return "127.0.0.1:" + std::to_string(other_->port()); }
  std::string other_url(const std::string& target) const {
    return "http://" + other_host_port() + target;
  }
  // Ends the second server, so that its requests can be read.
  std::string heard() {
    session_.reset();
    other_.reset();
    return heard_;
  }

  std::string heard_;
  std::unique_ptr<RawServer> other_;
  std::unique_ptr<Session> session_;
};

TEST_F(RedirectTest, AnotherHostIsNotToldWhoAsks) {
  redirect();
  const auto answer =
      session_->start({.url = url("/start"),
                       .headers = {{"AUTHORIZATION", "Bearer secret"}, {"Accept", "some/thing"}}});
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ((*answer)->url(), other_url("/end"));
  EXPECT_EQ(*read_all(**answer, 100), "the end");
  EXPECT_THAT(heard(), HasSubstr("GET /end HTTP/1.1\r\n"));
  EXPECT_THAT(heard_, HasSubstr("Accept: some/thing\r\n"));
  EXPECT_THAT(heard_, Not(HasSubstr("secret")));
}

TEST_F(RedirectTest, TheSameHostIsToldAgainUntilAnotherHadAWord) {
  std::string heard;
  other_ = std::make_unique<RawServer>([this](int fd) {
    read_head(fd);
    send_all(fd, redirect_to(url("/third")));
  });
  serve([&](int fd) {
    for (;;) {
      const std::string head = read_head(fd);
      if (head.empty()) return;
      heard += head;
      if (head.starts_with("GET /first")) send_all(fd, redirect_to("/second"));
      if (head.starts_with("GET /second")) send_all(fd, redirect_to(other_url("/")));
      if (head.starts_with("GET /third")) send_all(fd, ok_answer("the end"));
    }
  });
  {
    Session session(both());
    EXPECT_EQ(told(session, {.url = url("/first"), .headers = {{"Authorization", "me"}}}),
              "the end");
  }
  server_.reset();
  const auto third = heard.find("GET /third");
  EXPECT_THAT(heard.substr(heard.find("GET /second"), third), HasSubstr("Authorization: me"));
  EXPECT_THAT(heard.substr(third), Not(HasSubstr("Authorization")));
}

TEST_F(RedirectTest, ABodyIsSentAgainFromItsBeginning) {
  std::string heard;
  other_ = std::make_unique<RawServer>([&](int fd) {
    const std::string head = read_head(fd);
    heard.resize(200000);
    size_t size = 0;
    while (size < heard.size()) {
      const ssize_t got = recv(fd, heard.data() + size, heard.size() - size, 0);
      if (got <= 0) break;
      size += static_cast<size_t>(got);
    }
    send_all(fd, ok_answer(head.substr(0, head.find('\r'))));
  });
  parrot(redirect_to(other_url("/end")));  // without reading the body
  Session session(both());
  Counting body(200000);
  EXPECT_EQ(told(session, {.method = "PUT", .url = url(), .source = &body}), "PUT /end HTTP/1.1");
  EXPECT_TRUE(heard == counted(200000));
}

TEST_F(RedirectTest, WhichAreFollowedDependsOnTheMethod) {
  const std::tuple<const char*, int, bool> cases[] = {
      {"GET", 301, true},  {"GET", 302, true},   {"GET", 303, true},   {"GET", 307, true},
      {"GET", 308, true},  {"GET", 300, false},  {"GET", 304, false},  {"HEAD", 302, true},
      {"POST", 307, true}, {"PUT", 308, true},   {"POST", 301, false}, {"POST", 303, false},
      {"PUT", 302, false}, {"DELETE", 307, true}};
  for (const auto& [method, status, followed] : cases) {
    redirect(status);
    const auto answer = session_->start({.method = method, .url = url()});
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_EQ((*answer)->status(), followed ? 200 : status) << method << " " << status;
  }
}

TEST_F(RedirectTest, ARedirectToNowhereIsAnAnswer) {
  parrot("HTTP/1.1 307 Elsewhere\r\nContent-Length: 0\r\n\r\n");
  Session session(options());
  const auto answer = session.start({.url = url()});
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ((*answer)->status(), 307);
}

TEST_F(RedirectTest, FiveAreFollowed) {
  std::atomic<int> redirects = 0;
  serve([&](int fd) {
    for (std::string head; !(head = read_head(fd)).empty();) {
      const int number = std::stoi(head.substr(5));
      send_all(fd, number == redirects ? ok_answer("the end")
                                       : redirect_to("/" + std::to_string(number + 1), 302));
    }
  });
  redirects = 5;
  EXPECT_EQ(told(*std::make_unique<Session>(options()), {.url = url("/0")}), "the end");
  redirects = 6;
  const auto answer = Session(options()).start({.url = url("/0")});
  EXPECT_EQ(code_of_result(answer), ErrorCode::kCorrupt);
  EXPECT_THAT(message_of(answer), HasSubstr("more than 5 redirects"));
}

TEST_F(RedirectTest, ALocationThatCannotBeFollowedIsCorrupt) {
  for (const char* location : {"ftp://127.0.0.1/", "http://127.0.0.1:x/", "/a b", "http://",
                               "http://user:secret@127.0.0.1/", "http://elsewhere.example.com/"}) {
    parrot(redirect_to(location));
    const auto answer = Session(options()).start({.url = url()});
    EXPECT_EQ(code_of_result(answer), ErrorCode::kCorrupt) << location;
    EXPECT_THAT(message_of(answer), HasSubstr("a redirect"));
    EXPECT_THAT(message_of(answer), Not(HasSubstr("secret")));
  }
}

TEST_F(RedirectTest, ARedirectWhoseBodyStallsHoldsNobodyUp) {
  redirect();
  const std::string location = other_url("/end");
  serve([&](int fd) {
    read_head(fd);
    send_all(fd, "HTTP/1.1 307 Elsewhere\r\nLocation: " + location +
                     "\r\nContent-Length: 1000\r\n\r\nsome");
    read_to_the_end(fd);
  });
  Session session(both());
  EXPECT_EQ(told(session, {.url = url()}), "the end");
}

class TlsRedirectTest : public TlsSessionTest {};

TEST_F(TlsRedirectTest, NothingLeadsFromTlsToPlainHttp) {
  const RawServer plain([](int) { ADD_FAILURE() << "it was asked"; });
  const std::string host_port = "127.0.0.1:" + std::to_string(plain.port());
  serve([&](const Request&, const Responder& respond) {
    respond({.status = 307, .headers = {{"Location", "http://" + host_port + "/"}}});
  });
  SessionOptions options = this->options();
  options.plain_hosts = {host_port};
  const auto answer = Session(options).start({.url = url()});
  EXPECT_EQ(code_of_result(answer), ErrorCode::kCorrupt);
  EXPECT_THAT(message_of(answer), HasSubstr("from https:// to http://"));
}

TEST_F(TlsRedirectTest, APlainHostMayLeadToTls) {
  serve([&](const Request&, const Responder& respond) { respond(text_response(200, "the end")); });
  const RawServer plain([&](int fd) {
    read_head(fd);
    send_all(fd, redirect_to(url()));
  });
  const std::string host_port = "127.0.0.1:" + std::to_string(plain.port());
  SessionOptions options = this->options();
  options.plain_hosts = {host_port};
  Session session(options);
  EXPECT_EQ(told(session, {.url = "http://" + host_port + "/"}), "the end\n");
}

TEST_F(TlsRedirectTest, TheConnectionIsKept) {
  std::string peer;
  serve([&](const Request& request, const Responder& respond) {
    if (peer.empty()) peer = request.peer;
    EXPECT_EQ(request.peer, peer);
    if (request.path == "/end") return respond(text_response(200, "the end"));
    respond({.status = 302, .body = "gone", .headers = {{"Location", "/end"}}});
  });
  Session session(options());
  EXPECT_EQ(told(session, {.url = url("/start")}), "the end\n");
}

}  // namespace
}  // namespace compilecache::http::testing
