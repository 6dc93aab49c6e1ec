#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <boost/asio/strand.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <vector>

#include "http/server_state.hpp"
#include "targets.hpp"

// Bytes that come over one connection: a real connection of the server, on a pair of sockets
// instead of TCP and without threads, so that the same input always does the same.

namespace compilecache::fuzz {
namespace {

namespace net = boost::asio;
namespace bhttp = boost::beast::http;
using boost::system::error_code;

http::Limits small_limits() {
  http::Limits limits;
  limits.header_bytes = 2048;
  limits.body_bytes = 1000;
  // None ends while an input is tried, however slow the machine: the same input does the same.
  limits.header = limits.body = limits.handler = limits.write = limits.idle = std::chrono::hours(1);
  return limits;
}

// The result of one connection.
struct Story {
  std::vector<std::string> methods, requests;
  std::string answers;
};

class Exchange {
 public:
  Exchange() {
    state_ = std::make_shared<http::ServerState>(
        http::ServerOptions{.tls = false, .threads = 1, .limits = small_limits()},
        [this](const http::Request& request, const http::Responder& respond) {
          remember(request);
          respond(http::text_response(200, request.path));
        });
    std::array<int, 2> pair{};
    require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair.data()) == 0,
            "sockets can be made");
    client_ = pair[0];
    net::ip::tcp::socket socket(net::make_strand(loop()));
    socket.assign(net::ip::tcp::v4(), pair[1]);
    const auto connection = http::make_connection(state_, std::move(socket), nullptr);
    require(state_->admit(connection), "there is room");
    connection->start();
  }
  ~Exchange() { ::close(client_); }
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  // Sends it in pieces of that size and then no more.
  Story run(Bytes bytes, size_t piece) {
    while (!bytes.empty()) {
      const Bytes now = bytes.first(std::min(piece, bytes.size()));
      const ssize_t sent = ::send(client_, now.data(), now.size(), MSG_NOSIGNAL);
      if (sent > 0) bytes = bytes.subspan(static_cast<size_t>(sent));
      if (sent < 0 && errno != EAGAIN) break;  // the server has closed
      while (loop().poll() > 0) take_answers();
    }
    ::shutdown(client_, SHUT_WR);
    while (!loop().stopped()) {
      loop().run_one();
      take_answers();
    }
    require(state_->connections() == 0, "a connection ends with its client");
    require(state_->in_flight == 0, "every request was answered");
    return std::move(story_);
  }

 private:
  net::io_context& loop() { return *state_->loops.front(); }

  void remember(const http::Request& request) {
    require(request.body.size() <= small_limits().body_bytes, "bodies are as long as they may be");
    std::string all = request.method + " " + request.path + "?" + request.query + "\n";
    for (const auto& [name, value] : request.headers) all.append(name).append(":").append(value);
    require(all.size() <= 2 * small_limits().header_bytes, "headers are as long as they may be");
    (void)request.query_parameter("timeout");
    (void)request.bearer_token();
    story_.methods.push_back(request.method);
    story_.requests.push_back(all + "\n" + request.body);
  }

  void take_answers() {
    std::array<char, 16 * 1024> buffer{};
    ssize_t got = 0;
    while ((got = ::recv(client_, buffer.data(), buffer.size(), 0)) > 0) {
      story_.answers.append(buffer.data(), static_cast<size_t>(got));
    }
  }

  std::shared_ptr<http::ServerState> state_;
  int client_ = -1;
  Story story_;
};

// Every answer is whole, one for each request, and at most one more, which refuses.
void check_answers(const Story& story) {
  std::string_view rest = story.answers;
  size_t answered = 0;
  while (!rest.empty()) {
    bhttp::response_parser<bhttp::string_body> parser;
    parser.eager(true);
    const bool to_head = answered < story.methods.size() && story.methods[answered] == "HEAD";
    parser.skip(to_head);
    error_code error;
    const size_t used = parser.put(net::buffer(rest.data(), rest.size()), error);
    require(!error && parser.is_done(), "an answer is whole");
    rest.remove_prefix(used);
    const unsigned status = parser.get().result_int();
    if (status == 100) continue;
    const bool refusal = answered == story.methods.size();
    require(refusal ? status >= 400 : status == 200, "a request has its answer");
    require(!refusal || rest.empty(), "a refusal is the last answer");
    ++answered;
  }
  require(answered >= story.methods.size(), "every request has an answer");
}

// The first byte says in pieces of which size the rest comes; it must not matter.
void one_connection(Bytes input) {
  if (input.empty()) return;
  const Bytes bytes = input.subspan(1);
  const Story whole = Exchange().run(bytes, bytes.size());
  check_answers(whole);
  const Story pieces = Exchange().run(bytes, 1U + input[0]);
  check_answers(pieces);
  require(whole.requests == pieces.requests, "pieces do not change the requests");
}

const Registration kRegistration{{"http", one_connection}};

}  // namespace
}  // namespace compilecache::fuzz
