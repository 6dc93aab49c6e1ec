#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>

#include "base/log.hpp"
#include "base/strings.hpp"
#include "http/body_budget.hpp"
#include "http/responder.hpp"
#include "http/server_state.hpp"

// One accepted connection, from handshake to close. Everything runs on the socket's strand, so
// there are no locks here; other threads come in by post(). Each wait has a deadline of its own,
// set by expires_after(), which closes the socket when it passes.

namespace compilecache::http {

namespace net = boost::asio;
namespace beast = boost::beast;
namespace bhttp = boost::beast::http;
using tcp = net::ip::tcp;
using boost::system::error_code;
using PlainStream = beast::tcp_stream;
using TlsStream = beast::ssl_stream<beast::tcp_stream>;

namespace {

// How long, and for how many bytes, the server reads after it refused a request in the middle.
// Closing with unread data makes the kernel send a reset, which can overtake the refusal.
constexpr std::chrono::seconds kLinger{2};
constexpr size_t kLingerBytes = 16U << 20;
constexpr int kSendBuffer = 64 << 10;
// How long the peer may take for its half of the TLS shutdown.
constexpr std::chrono::seconds kGoodbye{1};

std::string peer_name(const tcp::socket& socket) {
  error_code error;
  const auto endpoint = socket.remote_endpoint(error);
  if (error) return "unknown";
  return url_host(endpoint.address().to_string(error)) + ":" + std::to_string(endpoint.port());
}

// What to answer when a request could not be read; 0 when the peer just went away.
int status_for(const error_code& error) {
  if (error == no_room_for_body()) return 503;
  if (error.category() != make_error_code(bhttp::error::bad_method).category()) return 0;
  if (error == bhttp::error::end_of_stream || error == bhttp::error::partial_message) return 0;
  if (error == bhttp::error::body_limit) return 413;
  if (error == bhttp::error::header_limit) return 431;
  return 400;
}

std::string sentence_for(int status, const Limits& limits) {
  if (status == 413) {
    return "the body is larger than " + std::to_string(limits.body_bytes) + " bytes";
  }
  if (status == 431) {
    return "the headers are larger than " + std::to_string(limits.header_bytes) + " bytes";
  }
  if (status == 503) return "too many large requests at once; try again";
  return "this is not a request that can be understood";
}

}  // namespace

template <typename Stream>
class HttpConnection : public Connection,
                       public AnswerSink,
                       public std::enable_shared_from_this<HttpConnection<Stream>> {
 public:
  static constexpr bool kTls = std::is_same_v<Stream, TlsStream>;

  HttpConnection(std::shared_ptr<ServerState> state, tcp::socket socket) requires(!kTls)
      : state_(std::move(state)),
        peer_(peer_name(socket)),
        stream_(std::move(socket)),
        handler_timer_(stream_.get_executor()) {}

  HttpConnection(std::shared_ptr<ServerState> state, tcp::socket socket,
                 TlsContext tls) requires kTls : state_(std::move(state)),
                                                 tls_(std::move(tls)),
                                                 peer_(peer_name(socket)),
                                                 stream_(std::move(socket), *tls_),
                                                 handler_timer_(stream_.get_executor()) {}

  void start() override {
    post([self = self()] { self->begin(); });
  }

  void close_if_idle() override {
    post([self = self()] {
      if (!self->idle_) return;
      self->closing_ = true;
      self->lowest().cancel();
    });
  }

  void cut() override {
    post([self = self()] { self->end(); });
  }

  std::optional<WaitingSince> waiting_since() const override {
    const auto since = waiting_since_.load();
    if (since == WaitingSince::min()) return std::nullopt;
    return since;
  }

  void answer(uint64_t request, Response response) override {
    state_->post_unless_stopped([&] {
      net::post(stream_.get_executor(),
                [self = self(), request, response = std::move(response)]() mutable {
                  self->send(request, std::move(response));
                });
    });
  }

 private:
  std::shared_ptr<HttpConnection> self() { return this->shared_from_this(); }
  beast::tcp_stream& lowest() { return beast::get_lowest_layer(stream_); }

  template <typename Work>
  void post(Work work) {
    net::post(stream_.get_executor(), std::move(work));
  }

  void begin() {
    error_code ignored;
    lowest().socket().set_option(tcp::no_delay(true), ignored);
    // Data that the peer does not read lies here, outside every budget: by default up to 4 MB.
    lowest().socket().set_option(net::socket_base::send_buffer_size(kSendBuffer), ignored);
    wait_for_peer();
    if constexpr (kTls) {
      lowest().expires_after(limits().handshake);
      stream_.async_handshake(net::ssl::stream_base::server, [self = self()](error_code error) {
        if (error) {
          log_debug("TLS handshake failed", {{"peer", self->peer_}, {"error", error.message()}});
          return self->end();
        }
        self->certificate_ = client_certificate(self->stream_.native_handle());
        self->wait_for_request();
      });
    } else {
      wait_for_request();
    }
  }

  // Waits for a request's first byte under the idle limit; from then on the header's limit counts.
  void wait_for_request() {
    if (buffer_.size() > 0) return read_header();
    // stop() may have come between an answer and here, when the connection was not yet idle. A new
    // one may still bring its first request.
    if (closing_ || (request_number_ > 0 && state_->closing_idle.load())) return say_goodbye();
    buffer_.shrink_to_fit();
    wait_for_peer();
    idle_ = true;
    lowest().expires_after(limits().idle);
    stream_.async_read_some(buffer_.prepare(4096), [self = self()](error_code error, size_t size) {
      self->idle_ = false;
      self->buffer_.commit(size);
      if (error == net::error::operation_aborted && self->closing_) return self->say_goodbye();
      if (error) return self->end();
      self->read_header();
    });
  }

  void wait_for_peer() { waiting_since_.store(std::chrono::steady_clock::now()); }

  void read_header() {
    wait_for_peer();
    head_ = false;
    parser_.emplace();
    parser_->get().body().share = BodyBudget::Share(state_->bodies);
    parser_->header_limit(static_cast<uint32_t>(limits().header_bytes));
    parser_->body_limit(limits().body_bytes);
    lowest().expires_after(limits().header);
    bhttp::async_read_header(stream_, buffer_, *parser_, [self = self()](error_code error, size_t) {
      if (error) return self->refuse(error);
      self->read_body();
    });
  }

  void read_body() {
    lowest().expires_after(limits().body);
    if (!parser_->is_done() &&
        beast::iequals(parser_->get()[bhttp::field::expect], "100-continue")) {
      static const std::string kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
      return net::async_write(stream_, net::buffer(kContinue),
                              [self = self()](error_code error, size_t) {
                                if (error) return self->end();
                                self->read_rest();
                              });
    }
    read_rest();
  }

  void read_rest() {
    bhttp::async_read(stream_, buffer_, *parser_, [self = self()](error_code error, size_t) {
      if (error) return self->refuse(error);
      self->dispatch();
    });
  }

  void refuse(const error_code& error) {
    const int status = status_for(error);
    if (status == 0) return end();
    log_debug("request refused", {{"peer", peer_}, {"error", error.message()}});
    refused_ = true;
    parser_.reset();
    write(text_response(status, sentence_for(status, limits())));
  }

  void dispatch() {
    waiting_since_.store(WaitingSince::min());
    const auto& message = parser_->get();
    const std::string_view target(message.target().data(), message.target().size());
    const size_t question = target.find('?');
    auto path = percent_decode(target.substr(0, question));
    if (!path) {
      refused_ = true;
      return write(text_response(400, sentence_for(400, limits())));
    }
    Request request;
    request.method = std::string(message.method_string());
    request.path = std::move(*path);
    if (question != std::string_view::npos) request.query = target.substr(question + 1);
    for (const auto& field : message) {
      request.headers.emplace_back(field.name_string(), field.value());
    }
    request.peer = peer_;
    request.certificate = certificate_;
    keep_alive_ = message.keep_alive();
    version_ = message.version();
    head_ = message.method() == bhttp::verb::head;
    request.body = std::move(parser_->get().body().text);
    request.counted =
        std::make_shared<const BodyBudget::Share>(std::move(parser_->get().body().share));
    counted_body_ = request.counted;
    parser_.reset();
    handle(std::move(request));
  }

  void handle(Request request) {
    awaiting_answer_ = ++request_number_;
    state_->in_flight.fetch_add(1);
    lowest().expires_never();
    handler_timer_.expires_after(limits().handler);
    handler_timer_.async_wait([self = self(), number = request_number_](error_code error) {
      if (error) return;
      self->send(number, text_response(503, "there was no answer in time; try again"));
    });
    const Responder responder = make_responder(self(), request_number_);
    const std::string method = request.method;
    const std::string path = request.path;
    try {
      state_->handler(std::move(request), responder);
    } catch (const std::exception& exception) {
      handler_failed(responder, method, path, exception.what());
    } catch (...) {
      handler_failed(responder, method, path, "not a std::exception");
    }
  }

  void handler_failed(const Responder& responder, const std::string& method,
                      const std::string& path, const char* what) {
    log_error("a request handler threw",
              {{"method", method}, {"path", path}, {"error", what}, {"peer", peer_}});
    responder(text_response(500, "internal error"));
  }

  // The answer to request `number`, unless it was answered (by the handler's limit) before.
  void send(uint64_t number, Response response) {
    if (awaiting_answer_ != number) return;
    awaiting_answer_ = 0;
    handler_timer_.cancel();
    counted_ = true;
    counted_body_.reset();
    answer_share_ = BodyBudget::Share(state_->bodies);
    if (!answer_share_.grow_to(response.body.size())) {
      log_warn("an answer was dropped: peers do not read those they have",
               {{"peer", peer_}, {"bytes", std::to_string(response.body.size())}});
      response = text_response(503, "too many large answers at once; try again");
    }
    write(std::move(response));
  }

  void write(Response response) {
    const bool last = refused_ || closing_ || !keep_alive_ || state_->draining.load();
    outgoing_.emplace(static_cast<bhttp::status>(response.status), version_);
    for (const auto& [name, value] : response.headers) outgoing_->insert(name, value);
    if (!response.content_type.empty()) {
      outgoing_->set(bhttp::field::content_type, response.content_type);
    }
    outgoing_->keep_alive(!last);
    outgoing_->content_length(response.body.size());
    if (!head_) outgoing_->body() = std::move(response.body);
    lowest().expires_after(limits().write);
    wait_for_peer();
    bhttp::async_write(stream_, *outgoing_, [self = self(), last](error_code error, size_t) {
      self->outgoing_.reset();
      self->uncount();
      if (error) return self->end();
      if (self->refused_) return self->linger();
      if (last) return self->say_goodbye();
      self->wait_for_request();
    });
  }

  void uncount() {
    counted_body_.reset();
    answer_share_ = {};
    if (!counted_) return;
    counted_ = false;
    state_->in_flight.fetch_sub(1);
  }

  void say_goodbye() {
    if constexpr (kTls) {
      lowest().expires_after(kGoodbye);
      stream_.async_shutdown([self = self()](error_code) { self->end(); });
    } else {
      end();
    }
  }

  void linger() {
    error_code ignored;
    lowest().socket().shutdown(tcp::socket::shutdown_send, ignored);
    lowest().expires_after(kLinger);
    discard();
  }

  void discard() {
    buffer_.clear();
    lowest().async_read_some(buffer_.prepare(64U << 10),
                             [self = self()](error_code error, size_t size) {
                               self->discarded_ += size;
                               if (error || self->discarded_ > kLingerBytes) return self->end();
                               self->discard();
                             });
  }

  void end() {
    closing_ = true;
    if (awaiting_answer_ != 0) {
      awaiting_answer_ = 0;
      counted_ = true;
    }
    uncount();
    handler_timer_.cancel();
    lowest().close();
    state_->forget(self());
  }

  const Limits& limits() const { return state_->options.limits; }

  // First, so that it goes last: the stream and the timer need its io_context.
  const std::shared_ptr<ServerState> state_;
  const TlsContext tls_;
  const std::string peer_;
  Stream stream_;
  net::steady_timer handler_timer_;
  beast::flat_buffer buffer_;
  std::optional<bhttp::request_parser<BudgetedBody>> parser_;
  std::optional<bhttp::response<bhttp::string_body>> outgoing_;
  std::shared_ptr<const void> counted_body_;  // of the request that is not answered yet
  BodyBudget::Share answer_share_;            // of the answer that is not read yet
  std::atomic<WaitingSince> waiting_since_{WaitingSince::min()};
  uint64_t request_number_ = 0;
  uint64_t awaiting_answer_ = 0;  // 0: none
  unsigned version_ = 11;
  size_t discarded_ = 0;
  ClientCertificate certificate_ = ClientCertificate::kNone;
  bool idle_ = false;  // between requests
  bool keep_alive_ = true;
  bool head_ = false;
  bool refused_ = false;  // in mid-request: what the peer still sends has to be swallowed
  bool closing_ = false;
  bool counted_ = false;  // whether the answer being written counts as in flight
};

std::shared_ptr<Connection> make_connection(std::shared_ptr<ServerState> state, tcp::socket socket,
                                            TlsContext tls) {
  if (tls) {
    return std::make_shared<HttpConnection<TlsStream>>(std::move(state), std::move(socket),
                                                       std::move(tls));
  }
  return std::make_shared<HttpConnection<PlainStream>>(std::move(state), std::move(socket));
}

}  // namespace compilecache::http
