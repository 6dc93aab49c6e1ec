#include "http/server.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <list>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>

#include "tests/support/soon.hpp"
#include "tests/unit/http/raw_socket.hpp"

namespace compilecache::http {
namespace {

using compilecache::testing::soon;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::RawSocket;
using ::testing::StartsWith;

void echo(const Request& request, const Responder& respond) {
  respond(Response{.status = 200,
                   .body = request.method + " " + request.path + "?" + request.query + " " +
                           request.body + " " + std::string(request.header("X-Test").value_or("-")),
                   .content_type = "text/plain",
                   .headers = {{"X-Answer", "yes"}}});
}

std::unique_ptr<Server> start(Handler handler, Limits limits = {}) {
  auto server = Server::start({.tls = false, .limits = limits}, std::move(handler));
  EXPECT_TRUE(server) << server.error().message;
  return std::move(*server);
}

void wait_for(const std::function<bool()>& condition) {
  ASSERT_TRUE(soon(condition)) << "it did not happen within five minutes";
}

constexpr char kGet[] = "GET /x HTTP/1.1\r\nHost: h\r\n\r\n";

TEST(Server, GivesTheHandlerTheWholeRequestAndTheClientItsAnswer) {
  const auto server = start(echo);
  RawSocket client(server->port());
  client.send("POST /a%20b?q=1 HTTP/1.1\r\nHost: h\r\nX-Test: t\r\nContent-Length: 4\r\n\r\nbody");
  const std::string answer = client.read_until("body t");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(answer, HasSubstr("X-Answer: yes\r\n"));
  EXPECT_THAT(answer, HasSubstr("POST /a b?q=1 body t"));
  // The connection is kept for the next request.
  client.send(kGet);
  EXPECT_THAT(client.read_until("GET /x?"), HasSubstr("200 OK"));
}

TEST(Server, PipelinedRequestsAreAnsweredInOrder) {
  const auto server = start(echo);
  RawSocket client(server->port());
  client.send(
      "GET /1 HTTP/1.1\r\nHost: h\r\n\r\nGET /2 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
  const std::string answers = client.read_all();
  EXPECT_LT(answers.find("GET /1?"), answers.find("GET /2?"));
  EXPECT_NE(answers.find("GET /2?"), std::string::npos);
}

TEST(Server, AChunkedBodyArrivesWhole) {
  const auto server = start(echo);
  RawSocket client(server->port());
  client.send(
      "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: "
      "chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
  EXPECT_THAT(client.read_until("abcde"), HasSubstr("abcde"));
}

TEST(Server, AClientThatWaitsForContinueGetsIt) {
  const auto server = start(echo);
  RawSocket client(server->port());
  client.send("POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_EQ(client.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.send("ok");
  EXPECT_THAT(client.read_until(" ok "), HasSubstr("200 OK"));
}

TEST(Server, HeadGetsTheLengthButNoBody) {
  const auto server = start(
      [](const Request&, const Responder& respond) { respond(text_response(200, "1234567")); });
  RawSocket client(server->port());
  client.send("HEAD / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
  const std::string answer = client.read_all();
  EXPECT_THAT(answer, HasSubstr("Content-Length: 8\r\n"));
  EXPECT_THAT(answer, Not(HasSubstr("1234567")));
}

TEST(Server, OversizedHeadersAreRefused) {
  const auto server = start(echo);
  RawSocket client(server->port());
  client.send("GET / HTTP/1.1\r\nX-Big: " + std::string(70 * 1024, 'a') + "\r\n\r\n");
  EXPECT_THAT(client.read_all(), StartsWith("HTTP/1.1 431"));
}

TEST(Server, AnnouncedOversizedBodiesAreRefusedBeforeTheyCome) {
  const auto server = start(echo);
  RawSocket client(server->port());
  client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 7340033\r\n\r\n");
  EXPECT_THAT(client.read_all(), StartsWith("HTTP/1.1 413"));
}

TEST(Server, ABodyWithoutEndIsRefusedAndTheAnswerIsRead) {
  const auto server = start(echo, {.body_bytes = 1000});
  RawSocket client(server->port());
  client.send("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
  const std::string chunk = "400\r\n" + std::string(1024, 'x') + "\r\n";
  for (int i = 0; i < 100; ++i) client.send(chunk);
  EXPECT_THAT(client.read_all(), StartsWith("HTTP/1.1 413"));
}

TEST(Server, ABodyOfExactlyTheLimitIsTaken) {
  const auto server = start(echo, {.body_bytes = 5});
  RawSocket client(server->port());
  client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n12345");
  EXPECT_THAT(client.read_until("12345"), HasSubstr("200 OK"));
}

TEST(Server, LargeBodiesTogetherHaveALimitAndSmallOnesDoNotCount) {
  const auto server = start(echo, {.large_bodies_bytes = 1550, .small_body_bytes = 100});
  const std::string head = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: ";
  RawSocket large(server->port());
  large.send(head + "1100\r\n\r\n" + std::string(1099, 'x'));
  // Also one whose length nobody knows before.
  RawSocket chunked(server->port());
  const std::string chunked_head =
      "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
  wait_for([&] {
    RawSocket second(server->port());
    second.send(head + "700\r\n\r\n" + std::string(700, 'y'));
    return second.read_until("\r\n\r\n").find("503") != std::string::npos;
  });
  chunked.send(chunked_head + "2bc\r\n" + std::string(700, 'y') + "\r\n0\r\n\r\n");
  EXPECT_THAT(chunked.read_all(), StartsWith("HTTP/1.1 503"));
  RawSocket small(server->port());
  small.send(head + "100\r\n\r\n" + std::string(100, 'z'));
  EXPECT_THAT(small.read_until("zzz"), HasSubstr("200 OK"));
  // Places are given back: after an answer, and when a client goes away.
  large.send("x");
  EXPECT_THAT(large.read_until("xxx"), HasSubstr("200 OK"));
  {
    RawSocket gone(server->port());
    gone.send(head + "1600\r\n\r\n" + std::string(1500, 'x'));
  }
  wait_for([&] {
    RawSocket next(server->port());
    next.send(head + "1600\r\n\r\n" + std::string(1600, 'w'));
    return next.read_until("www").find("200 OK") != std::string::npos;
  });
}

TEST(Server, ABodyCountsUntilItsRequestIsAnswered) {
  std::promise<Responder> held;
  const auto server = start(
      [&](const Request& request, Responder respond) {
        if (request.path == "/held") return held.set_value(std::move(respond));
        respond(text_response(200, "done"));
      },
      {.large_bodies_bytes = 1000, .small_body_bytes = 0});
  const std::string rest =
      " HTTP/1.1\r\nHost: h\r\nContent-Length: 600\r\n\r\n" + std::string(600, 'x');
  RawSocket first(server->port());
  first.send("POST /held" + rest);
  const Responder respond = soon(held);
  RawSocket second(server->port());
  second.send("POST /" + rest);
  EXPECT_THAT(second.read_all(), StartsWith("HTTP/1.1 503"));
  respond(text_response(200, "done"));
  EXPECT_THAT(first.read_until("done"), HasSubstr("200 OK"));
  wait_for([&] {
    RawSocket third(server->port());
    third.send("POST /" + rest);
    return third.read_until("done").find("200 OK") != std::string::npos;
  });
}

// A worker may go on with a body whose peer is long gone.
TEST(Server, ABodyCountsForAsLongAsAnybodyHasIt) {
  std::promise<Request> kept;
  const auto server = start(
      [&](Request request, const Responder& respond) {
        if (request.path == "/kept") kept.set_value(std::move(request));
        respond(text_response(200, "done"));
      },
      {.large_bodies_bytes = 1000, .small_body_bytes = 0});
  const std::string rest =
      " HTTP/1.1\r\nHost: h\r\nContent-Length: 600\r\n\r\n" + std::string(600, 'x');
  std::optional<Request> request;
  {
    RawSocket first(server->port());
    first.send("POST /kept" + rest);
    request = soon(kept);
    EXPECT_THAT(first.read_until("done"), HasSubstr("200 OK"));
  }
  RawSocket second(server->port());
  second.send("POST /" + rest);
  EXPECT_THAT(second.read_all(), StartsWith("HTTP/1.1 503"));
  request.reset();
  wait_for([&] {
    RawSocket third(server->port());
    third.send("POST /" + rest);
    return third.read_until("done").find("200 OK") != std::string::npos;
  });
}

// More than a peer's socket takes without being read.
constexpr size_t kLargeAnswer = 40'000'000;
constexpr char kMuch[] = "GET /much HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";

void answer_much(const Request& request, const Responder& respond) {
  respond(text_response(200, std::string(request.path == "/much" ? kLargeAnswer : 10, 'a')));
}

TEST(Server, AnswersThatNobodyReadsCountAndKeepOutNoOrdinaryOne) {
  const auto server = start(
      answer_much, {.large_bodies_bytes = 2 * kLargeAnswer + 10, .write = std::chrono::hours(1)});
  std::list<RawSocket> peers;
  std::vector<RawSocket*> unread;
  for (int i = 0; i < 8; ++i) peers.emplace_back(server->port()).send(kMuch);
  for (RawSocket& peer : peers) {
    if (peer.read_until("\r\n\r\n").find("200 OK") != std::string::npos) unread.push_back(&peer);
  }
  // Two are in memory, the others were asked to retry.
  ASSERT_EQ(unread.size(), 2U);
  RawSocket ordinary(server->port());
  ordinary.send(kGet);
  EXPECT_THAT(ordinary.read_until("aaaaaaaaaa"), HasSubstr("200 OK"));
  // Read, they count no more.
  EXPECT_EQ(unread.front()->read_all().size(), kLargeAnswer + 1);
  wait_for([&] {
    RawSocket next(server->port());
    next.send(kMuch);
    return next.read_until("\r\n\r\n").find("200 OK") != std::string::npos;
  });
}

TEST(Server, AnAnswerThatNobodyReadsTimesOut) {
  const auto server =
      start(answer_much, {.large_bodies_bytes = kLargeAnswer, .write = milliseconds(50)});
  RawSocket unread(server->port());
  unread.send(kMuch);
  wait_for([&] { return server->requests_in_flight() == 1; });
  wait_for([&] { return server->open_connections() == 0; });
  RawSocket next(server->port());
  next.send(kMuch);
  EXPECT_THAT(next.read_until("\r\n\r\n"), HasSubstr("200 OK"));
}

TEST(Server, AThreadThatIsHeldUpIsNoticed) {
  std::promise<void> held;
  std::promise<void> go_on;
  const auto server = start([&](const Request& request, const Responder& respond) {
    if (request.path == "/x") {
      held.set_value();
      soon(go_on);
    }
    respond(text_response(200, "done"));
  });
  EXPECT_EQ(server->held_up(), milliseconds(0));
  wait_for([&] { return server->held_up() == milliseconds(0); });
  RawSocket client(server->port());
  client.send(kGet);
  soon(held);
  wait_for([&] { return server->held_up() >= milliseconds(20); });
  go_on.set_value();
  EXPECT_THAT(client.read_until("done"), HasSubstr("200 OK"));
  wait_for([&] { return server->held_up() == milliseconds(0); });
}

TEST(Server, ARefusalAfterAHeadHasItsBody) {
  const auto server = start(echo);
  RawSocket client(server->port());
  client.send("HEAD / HTTP/1.1\r\nHost: h\r\n\r\nnonsense\r\n\r\n");
  EXPECT_THAT(client.read_all(), HasSubstr("this is not a request that can be understood\n"));
}

TEST(Server, GarbageIsRefusedAndTheNextClientServed) {
  const auto server = start(echo);
  for (const char* garbage :
       {"\x16\x03\x01\x02\x01\x01", "hello\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "\r\n\r\n\r\n\r\n",
        "GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n", "GET /%zz HTTP/1.1\r\nHost: h\r\n\r\n"}) {
    RawSocket client(server->port());
    client.send(garbage);
    client.send("\r\n\r\n");
    EXPECT_THAT(client.read_all(), StartsWith("HTTP/1.1 400")) << garbage;
  }
  RawSocket client(server->port());
  client.send(kGet);
  EXPECT_THAT(client.read_until("GET /x?"), HasSubstr("200 OK"));
}

TEST(Server, SlowHeadersAreCutOff) {
  const auto server = start(echo, {.header = milliseconds(50)});
  RawSocket client(server->port());
  client.send("GET / HTTP/1.1\r\nX-Slow: ");
  EXPECT_EQ(client.read_all(), "");
}

TEST(Server, SlowBodiesAreCutOff) {
  const auto server = start(echo, {.body = milliseconds(50)});
  RawSocket client(server->port());
  client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n123");
  EXPECT_EQ(client.read_all(), "");
}

TEST(Server, IdleConnectionsAreClosed) {
  const auto server = start(echo, {.idle = milliseconds(50)});
  RawSocket silent(server->port());
  EXPECT_EQ(silent.read_all(), "");
  RawSocket served(server->port());
  served.send(kGet);
  EXPECT_THAT(served.read_all(), HasSubstr("GET /x?"));
}

TEST(Server, AClientThatDoesNotTakeItsAnswerIsCutOff) {
  const auto server = start(
      [](const Request&, const Responder& respond) {
        respond(text_response(200, std::string(64 * 1024 * 1024, 'x')));
      },
      {.write = milliseconds(50)});
  RawSocket client(server->port());
  client.send(kGet);
  wait_for([&] { return server->open_connections() == 1; });
  wait_for([&] { return server->open_connections() == 0; });
  EXPECT_EQ(server->requests_in_flight(), 0U);
}

TEST(Server, AHandlerThatThrowsIsA500) {
  const auto server = start([](const Request& request, const Responder& respond) {
    if (request.path == "/throw") throw std::runtime_error("secret detail");
    if (request.path == "/odd") throw 7;
    echo(request, respond);
  });
  RawSocket client(server->port());
  for (const char* path : {"/throw", "/odd"}) {
    client.send("GET " + std::string(path) + " HTTP/1.1\r\nHost: h\r\n\r\n");
    const std::string answer = client.read_until("internal error\n");
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 500"));
    EXPECT_THAT(answer, Not(HasSubstr("secret detail")));
  }
  client.send(kGet);
  EXPECT_THAT(client.read_until("GET /x?"), HasSubstr("200 OK"));
}

TEST(Server, ARequestThatIsDroppedIsA500) {
  const auto server = start([](const Request&, const Responder&) {});
  RawSocket client(server->port());
  client.send(kGet);
  EXPECT_THAT(client.read_until("\r\n\r\n"), StartsWith("HTTP/1.1 500"));
}

TEST(Server, AHandlerMayAnswerLaterFromAnotherThread) {
  std::promise<std::pair<Request, Responder>> received;
  const auto server = start([&](Request request, Responder respond) {
    received.set_value({std::move(request), std::move(respond)});
  });
  RawSocket client(server->port());
  client.send(kGet);
  auto [request, respond] = soon(received);
  EXPECT_EQ(server->requests_in_flight(), 1U);
  std::thread([&] { respond(text_response(202, "later")); }).join();
  EXPECT_THAT(client.read_until("later\n"), StartsWith("HTTP/1.1 202"));
  respond(text_response(500, "again"));  // the first answer counts
  client.send("x");
}

TEST(Server, AHandlerWithoutAnswerIsA503) {
  std::list<Responder> kept;
  std::mutex mutex;
  const auto server = start(
      [&](const Request&, Responder respond) {
        const std::lock_guard lock(mutex);
        kept.push_back(std::move(respond));
      },
      {.handler = milliseconds(50)});
  RawSocket client(server->port());
  client.send(kGet);
  EXPECT_THAT(client.read_until("\r\n\r\n"), StartsWith("HTTP/1.1 503"));
  const std::lock_guard lock(mutex);
  kept.front()(text_response(200, "too late"));
}

TEST(Server, AtTheLimitAnIdleConnectionMakesRoom) {
  const auto server = start(echo, {.connections = 2});
  RawSocket first(server->port());
  first.send(kGet);
  first.read_until("GET /x?");
  RawSocket second(server->port());
  second.send(kGet);
  second.read_until("GET /x?");
  // A client may have its answer before the server counts the connection as idle.
  wait_for([&] {
    RawSocket third(server->port());
    third.send(kGet);
    return third.read_until("GET /x?").find("200 OK") != std::string::npos;
  });
  int served = 0;
  for (RawSocket* old : {&first, &second}) {
    old->send(kGet);
    served += old->read_until("GET /x?").find("200 OK") != std::string::npos ? 1 : 0;
  }
  EXPECT_EQ(served, 1);
}

TEST(Server, AtTheLimitWhoLetsUsWaitMakesRoom) {
  const auto server = start(echo, {.connections = 2});
  RawSocket silent(server->port());
  RawSocket slow(server->port());
  slow.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n123");
  wait_for([&] { return server->open_connections() == 2; });
  std::list<RawSocket> clients;
  for (int i = 0; i < 2; ++i) {
    RawSocket& client = clients.emplace_back(server->port());
    client.send(kGet);
    EXPECT_THAT(client.read_until("GET /x?"), HasSubstr("200 OK"));
  }
  EXPECT_EQ(silent.read_all(), "");
  EXPECT_EQ(slow.read_all(), "");
}

TEST(Server, AtTheLimitWhoDoesNotTakeItsAnswerMakesRoom) {
  const auto server = start(
      [](const Request& request, const Responder& respond) {
        const size_t size = request.path == "/large" ? 64 * 1024 * 1024 : 10;
        respond(text_response(200, std::string(size, 'x')));
      },
      {.connections = 1});
  RawSocket lazy(server->port());
  lazy.send("GET /large HTTP/1.1\r\nHost: h\r\n\r\n");
  wait_for([&] { return server->requests_in_flight() == 1; });
  wait_for([&] {
    RawSocket client(server->port());
    client.send(kGet);
    return client.read_until("xxx").find("200 OK") != std::string::npos;
  });
}

TEST(Server, AtTheLimitBusyConnectionsStayAndNewOnesAreClosed) {
  std::promise<Responder> held;
  const auto server =
      start([&](const Request&, Responder respond) { held.set_value(std::move(respond)); },
            {.connections = 1});
  RawSocket busy(server->port());
  busy.send(kGet);
  const Responder respond = soon(held);
  RawSocket refused(server->port());
  refused.send(kGet);
  EXPECT_EQ(refused.read_all(), "");
  respond(text_response(200, "done"));
  EXPECT_THAT(busy.read_until("done"), HasSubstr("200 OK"));
}

// Closing an idle connection can cross a request that is on its way, which then fails.
TEST(Server, DrainingClosesNoConnectionButWithAnAnswer) {
  const auto server = start(echo);
  RawSocket idle(server->port());
  idle.send(kGet);
  idle.read_until("GET /x?");
  server->drain();
  idle.send(kGet);
  EXPECT_THAT(idle.read_all(), HasSubstr("Connection: close\r\n"));
  RawSocket late(server->port());  // an API server that does not know yet
  late.send(kGet);
  const std::string answer = late.read_all();
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(answer, HasSubstr("Connection: close\r\n"));
}

TEST(Server, StoppingLetsRequestsUnderWayEnd) {
  std::promise<Responder> held;
  const auto server =
      start([&](const Request&, Responder respond) { held.set_value(std::move(respond)); });
  RawSocket client(server->port());
  client.send(kGet);
  const Responder respond = soon(held);
  auto stopped = std::async(std::launch::async, [&] { return server->stop(seconds(60)); });
  wait_for([&] { return !RawSocket(server->port()).connected(); });
  respond(text_response(200, "finished"));
  EXPECT_THAT(client.read_all(), HasSubstr("finished"));
  EXPECT_TRUE(stopped.get());
}

TEST(Server, StoppingCutsWhatDoesNotEnd) {
  std::promise<Responder> held;
  auto server =
      start([&](const Request&, Responder respond) { held.set_value(std::move(respond)); });
  RawSocket client(server->port());
  client.send(kGet);
  const Responder respond = soon(held);
  EXPECT_FALSE(server->stop(milliseconds(1)));
  EXPECT_EQ(client.read_all(), "");
  server.reset();
  respond(text_response(200, "nobody listens"));  // harmless
}

TEST(Server, ListensOnBothFamilies) {
  const auto server = start(echo);
  for (const bool ipv6 : {false, true}) {
    RawSocket client(server->port(), ipv6);
    if (ipv6 && !client.connected()) GTEST_SKIP() << "this machine has no IPv6";
    client.send(kGet);
    EXPECT_THAT(client.read_until("GET /x?"), HasSubstr("200 OK"));
  }
}

TEST(Server, APortThatIsTakenIsSaid) {
  const auto server = start(echo);
  const auto second = Server::start({.port = server->port(), .tls = false}, echo);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(second.error().message, HasSubstr(std::to_string(server->port())));
}

TEST(Server, AnAddressThatIsNoneIsSaid) {
  const auto server = Server::start({.address = "localhost", .tls = false}, echo);
  ASSERT_FALSE(server);
  EXPECT_EQ(server.error().code, ErrorCode::kInvalid);
  EXPECT_THAT(server.error().message, HasSubstr("localhost"));
}

}  // namespace
}  // namespace compilecache::http
