#include "load.hpp"

#include <algorithm>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>

namespace compilecache::bench {
namespace {

namespace net = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;

std::string request_of(const std::string& body) {
  return "POST /mutate?timeout=3s HTTP/1.1\r\nHost: webhook.system.svc:443\r\n"
         "User-Agent: kube-apiserver-admission\r\nContent-Length: " +
         std::to_string(body.size()) +
         "\r\nAccept: application/json, */*\r\nContent-Type: application/json\r\n\r\n" + body;
}

double ms(Clock::duration time) { return std::chrono::duration<double, std::milli>(time).count(); }

// One connection; at most one request on it.
class Caller {
 public:
  using Done = std::function<void(bool good)>;

  Caller(net::io_context& io, net::ssl::context& tls, uint16_t port, const std::string& request)
      : stream_(io, tls), request_(request) {
    error_code error;
    auto& socket = beast::get_lowest_layer(stream_).socket();
    socket.connect({net::ip::address_v4::loopback(), port}, error);
    if (error) return;
    socket.set_option(net::ip::tcp::no_delay(true));
    stream_.handshake(net::ssl::stream_base::client, error);
    connected_ = !error;
  }

  [[nodiscard]] bool connected() const { return connected_; }

  void call(Done done) {
    done_ = std::move(done);
    net::async_write(stream_, net::buffer(request_), [this](error_code error, size_t) {
      if (error) return finish(false);
      parser_.emplace();
      parser_->body_limit(1 << 20);
      http::async_read(stream_, buffer_, *parser_, [this](error_code read_error, size_t) {
        finish(!read_error && parser_->get().result_int() == 200 &&
               parser_->get().body().find("\"JSONPatch\"") != std::string::npos);
      });
    });
  }

 private:
  void finish(bool good) {
    const Done done = std::move(done_);
    done(good);
  }

  beast::ssl_stream<beast::tcp_stream> stream_;
  const std::string& request_;
  beast::flat_buffer buffer_;
  std::optional<http::response_parser<http::string_body>> parser_;
  Done done_;
  bool connected_ = false;
};

// What both kinds of load share.
class Load {
 public:
  Load(uint16_t port, const std::string& body, int connections) : request_(request_of(body)) {
    for (int i = 0; i < connections; ++i) {
      callers_.push_back(std::make_unique<Caller>(io_, tls_, port, request_));
      if (!callers_.back()->connected()) {
        callers_.pop_back();
        ++result_.failures;
      }
    }
  }

  LoadResult run_closed(double seconds) {
    begin_ = Clock::now();
    end_ = begin_ +
           std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    for (const auto& caller : callers_) next(*caller);
    io_.run();
    return finished();
  }

  LoadResult run_open(int rate, double seconds) {
    begin_ = Clock::now();
    left_ = static_cast<int>(rate * seconds);
    gap_ = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(1.0 / rate));
    for (const auto& caller : callers_) idle_.push_back(caller.get());
    due_ = begin_;
    tick();
    io_.run();
    return finished();
  }

 private:
  void next(Caller& caller) {
    const auto sent = Clock::now();
    if (sent >= end_) return;
    caller.call([this, &caller, sent](bool good) {
      count(good, sent);
      if (good) next(caller);
    });
  }

  void tick() {
    while (left_ > 0 && due_ <= Clock::now()) {
      waiting_.push_back(due_);
      due_ += gap_;
      --left_;
    }
    send_waiting();
    if (left_ == 0) return;
    timer_.expires_at(due_);
    timer_.async_wait([this](error_code) { tick(); });
  }

  void send_waiting() {
    while (!waiting_.empty() && !idle_.empty()) {
      Caller* caller = idle_.back();
      idle_.pop_back();
      const auto due = waiting_.front();
      waiting_.pop_front();
      caller->call([this, caller, due](bool good) {
        count(good, due);
        if (good) idle_.push_back(caller);
        send_waiting();
      });
    }
  }

  void count(bool good, Clock::time_point since) {
    if (!good) {
      ++result_.failures;
      return;
    }
    ++result_.answers;
    result_.milliseconds.push_back(ms(Clock::now() - since));
  }

  LoadResult finished() {
    result_.seconds = ms(Clock::now() - begin_) / 1000;
    result_.failures += waiting_.size();
    std::sort(result_.milliseconds.begin(), result_.milliseconds.end());
    return std::move(result_);
  }

  net::io_context io_{1};
  net::ssl::context tls_{net::ssl::context::tls_client};
  const std::string request_;
  std::vector<std::unique_ptr<Caller>> callers_;
  LoadResult result_;
  Clock::time_point begin_, end_, due_;
  net::steady_timer timer_{io_};
  int left_ = 0;
  Clock::duration gap_{};
  std::deque<Clock::time_point> waiting_;
  std::vector<Caller*> idle_;
};

}  // namespace

double LoadResult::percentile(double part) const {
  if (milliseconds.empty()) return 0;
  const auto at = static_cast<size_t>(part * static_cast<double>(milliseconds.size() - 1));
  return milliseconds[at];
}

LoadResult closed_loop(uint16_t port, const std::string& body, int connections, double seconds) {
  return Load(port, body, connections).run_closed(seconds);
}

LoadResult open_loop(uint16_t port, const std::string& body, int rate, double seconds) {
  constexpr int kConnections = 16;
  return Load(port, body, kConnections).run_open(rate, seconds);
}

bool answers(uint16_t port, const std::string& body) {
  return Load(port, body, 1).run_open(1, 1).answers == 1;
}

}  // namespace compilecache::bench
