#include "http/session.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <set>
#include <thread>

#include "tests/unit/http/session_servers.hpp"

namespace compilecache::http::testing {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::Not;

void say_ok(const Request&, const Responder& respond) { respond(text_response(200, "ok")); }

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
      return fail(ErrorCode::kIo, "the disk is gone");
    }
  };
  serve(say_ok);
  Broken body;
  Session session(options());
  const auto answer = session.start({.method = "PUT", .url = url(), .source = &body});
  EXPECT_EQ(code_of_result(answer), ErrorCode::kIo);
  EXPECT_EQ(message_of(answer), "the disk is gone");
}

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

TEST_F(TlsSessionTest, ARefusalWhileTheBodyIsBeingSentIsHeard) {
  serve(say_ok);  // which takes 7 MiB
  Counting body(1ULL << 40);
  Session session(options());
  const auto answer = session.start({.method = "PUT", .url = url(), .source = &body});
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ((*answer)->status(), 413);
  EXPECT_LT(body.read(), 1ULL << 30);
}

TEST_F(TlsSessionTest, AServerThatCannotProveWhoItIsGetsNothing) {
  struct {
    std::string name;
    long good_for;
    bool known;
    const char* why;
  } const cases[] = {{"other.example.com", 3600, true, "hostname mismatch"},
                     {kRegistry, -60, true, "expired"},
                     {kRegistry, 3600, false, "unable to get local issuer certificate"}};
  for (const auto& one : cases) {
    serve([](const Request&, const Responder&) { ADD_FAILURE() << "it was asked"; }, one.name,
          one.good_for);
    SessionOptions options = this->options();
    if (!one.known) options.ca_pem = TestCa("another").pem();
    const auto answer = Session(options).start({.url = url()});
    EXPECT_EQ(code_of_result(answer), ErrorCode::kUnauthorized) << one.why;
    EXPECT_THAT(message_of(answer), HasSubstr(kRegistry));
    EXPECT_THAT(message_of(answer), HasSubstr(one.why));
  }
}

TEST_F(TlsSessionTest, AnAddressIsProvedByTheCertificatesAddresses) {
  serve(say_ok, "127.0.0.1");
  SessionOptions options = this->options();
  options.fixed_host.clear();
  Session session(options);
  const auto body = body_of(session, {.url = "https://" + host_port("127.0.0.1") + "/"});
  EXPECT_TRUE(body) << message_of(body);
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

TEST_F(RawSessionTest, AnEarly401IsTheAnswer) {
  for (const bool reads_on : {false, true}) {
    serve([reads_on](int fd) {
      if (read_head(fd).starts_with("GET")) return send_all(fd, ok_answer("anew"));
      send_all(fd, "HTTP/1.1 401 Unauthorized\r\nContent-Length: 4\r\n\r\nwho?");
      if (reads_on) read_to_the_end(fd);
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
    EXPECT_EQ(told(session, {.url = url()}), "anew");
  }
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

TEST_F(RawSessionTest, PlainHttpIsSpokenToListedHostsAlone) {
  serve([](int) { ADD_FAILURE() << "it was asked"; });
  Session session(SessionOptions{});
  const auto answer = session.start({.url = url()});
  EXPECT_EQ(code_of_result(answer), ErrorCode::kInvalid);
  EXPECT_THAT(message_of(answer), HasSubstr(host_port()));
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

TEST_F(TlsSessionTest, AnIpv6AddressIsAskedAndProvedAsAnyOther) {
  auto server = Server::start({.address = "::1", .tls = true}, say_ok);
  if (!server) GTEST_SKIP() << "this machine has no IPv6";
  const Pair pair = ca_.issue("::1");
  ASSERT_TRUE((*server)->set_certificate(pair.certificate_pem, pair.key_pem));
  Session session({.ca_pem = ca_.pem(), .system_authorities = false});
  EXPECT_EQ(told(session, {.url = "https://[::1]:" + std::to_string((*server)->port())}), "ok\n");
}

// A folder of its own, and its files.
class AuthoritiesTest : public TlsSessionTest {
 protected:
  AuthoritiesTest() {
    serve(say_ok);
    std::ofstream(folder_ / "some.crt") << ca_.pem();
  }
  ~AuthoritiesTest() override {
    for (const char* name : {"SSL_CERT_FILE", "SSL_CERT_DIR"}) unsetenv(name);
    std::filesystem::remove_all(folder_);
  }
  static std::filesystem::path make_folder() {
    std::string name = (std::filesystem::temp_directory_path() / "authorities-XXXXXX").string();
    return mkdtemp(name.data());
  }
  SessionOptions of_system(const std::string& pem = "") const {
    SessionOptions options = this->options();
    options.ca_pem = pem;
    options.system_authorities = true;
    return options;
  }
  ErrorCode asking(const SessionOptions& options) {
    const auto answer = Session(options).start({.url = url()});
    return code_of_result(answer);
  }

  const std::filesystem::path folder_ = make_folder();
};

TEST_F(AuthoritiesTest, AFileOfTheEnvironmentIsTrusted) {
  EXPECT_EQ(asking(of_system()), ErrorCode::kUnauthorized);
  setenv("SSL_CERT_FILE", (folder_ / "some.crt").c_str(), 1);
  EXPECT_TRUE(Session(of_system()).start({.url = url()}));
}

TEST_F(AuthoritiesTest, AFolderWithHashedNamesIsTrusted) {
  setenv("SSL_CERT_DIR", ("/nonexistent:" + folder_.string()).c_str(), 1);
  EXPECT_EQ(asking(of_system()), ErrorCode::kUnauthorized);
  std::filesystem::copy_file(folder_ / "some.crt", folder_ / (ca_.subject_hash() + ".0"));
  EXPECT_TRUE(Session(of_system()).start({.url = url()}));
}

TEST_F(AuthoritiesTest, ThoseOfTheOptionsAreTrustedToo) {
  EXPECT_TRUE(Session(of_system(ca_.pem())).start({.url = url()}));
  std::ofstream(folder_ / "other.crt") << TestCa("another").pem();
  setenv("SSL_CERT_FILE", (folder_ / "other.crt").c_str(), 1);
  EXPECT_TRUE(Session(of_system(ca_.pem())).start({.url = url()}));
  EXPECT_EQ(asking(of_system()), ErrorCode::kUnauthorized);
}

TEST_F(AuthoritiesTest, WhatIsNoCertificateIsInvalid) {
  EXPECT_EQ(asking(of_system("nothing of the kind")), ErrorCode::kInvalid);
  SessionOptions nobody = options();
  nobody.ca_pem.clear();
  EXPECT_EQ(asking(nobody), ErrorCode::kInvalid);
  setenv("SSL_CERT_FILE", (folder_ / "missing.crt").c_str(), 1);
  const auto answer = Session(of_system()).start({.url = url()});
  EXPECT_EQ(code_of_result(answer), ErrorCode::kInvalid);
  EXPECT_THAT(message_of(answer), HasSubstr("SSL_CERT_FILE"));
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
