#include "http/wire.hpp"

#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>

#include <boost/asio/buffer.hpp>

#include "http/tcp_progress.hpp"
#include "http/url.hpp"

namespace compilecache::http {

namespace net = boost::asio;
using tcp = net::ip::tcp;

namespace {

constexpr size_t kReadAtOnce = 16U << 10;  // a TLS record
constexpr auto kTimedOut = net::error::timed_out;
// A cutoff that is set meanwhile is noticed this much later.
constexpr std::chrono::milliseconds kGlance{100};

Wire::Time steady_now() { return std::chrono::steady_clock::now(); }

// A name as certificates have it: without the dot that ends a name which is not to be completed.
std::string certificate_name(std::string host) {
  if (host.ends_with('.')) host.pop_back();
  return host;
}

}  // namespace

Wire::~Wire() {
  ErrorCode ignored;
  socket_.close(ignored);
}

template <typename Done>
Wire::ErrorCode Wire::run(Time until, Done done) {
  while (!done()) {
    io_.restart();
    const Time last = cutoff_ == nullptr ? until : std::min(until, cutoff_->at());
    const Time next = cutoff_ == nullptr ? until : std::min(last, steady_now() + kGlance);
    if (io_.run_one_until(next) > 0 || done()) continue;
    if (io_.stopped() || steady_now() >= last) return kTimedOut;
  }
  return {};
}

// An ended operation is over soon, and no cutoff leaves it under way.
template <typename Done>
void Wire::run_whole(Done done) {
  while (!done()) {
    io_.restart();
    if (io_.run_one() == 0) return;
  }
}

template <typename Use>
void Wire::with_stream(Use use) {
  if (tls_) {
    use(*tls_);
  } else {
    use(socket_);
  }
}

// One operation from its start to its end.
template <typename Start>
Wire::ErrorCode Wire::finish(Time until, Start start) {
  bool done = false;
  ErrorCode result;
  start([&](const ErrorCode& failure) {
    result = failure;
    done = true;
  });
  const auto is_done = [&] { return done; };
  if (!run(until, is_done)) return result;
  ErrorCode ignored;
  socket_.close(ignored);
  run_whole(is_done);  // it refers to variables of this function
  return kTimedOut;
}

Wire::ErrorCode Wire::connect(const std::string& address, uint16_t port, Time until) {
  ErrorCode error;
  const auto parsed = net::ip::make_address(address, error);
  if (error) return error;
  ErrorCode ignored;
  socket_.close(ignored);  // of an address that could not be reached
  error = finish(until, [&](auto done) {
    socket_.async_connect(tcp::endpoint(parsed, port), std::move(done));
  });
  if (!error) socket_.set_option(tcp::no_delay(true), ignored);
  return error;
}

Wire::ErrorCode Wire::secure(TlsContext tls, const std::string& host, Time until) {
  context_ = std::move(tls);
  tls_.emplace(socket_, *context_);
  SSL* native = tls_->native_handle();
  const std::string name = certificate_name(host);
  // SNI has names alone; OpenSSL looks for an address among the certificate's addresses.
  if (SSL_set1_host(native, name.c_str()) != 1 ||
      (!is_address(name) && SSL_set_tlsext_host_name(native, name.c_str()) != 1)) {
    return net::error::invalid_argument;
  }
  SSL_set_hostflags(native, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  return finish(until, [&](auto done) {
    tls_->async_handshake(net::ssl::stream_base::client, std::move(done));
  });
}

std::optional<std::string> Wire::certificate_trouble() const {
  if (!tls_) return std::nullopt;
  // native_handle() is not const, and changes nothing.
  const long verdict =
      SSL_get_verify_result(const_cast<net::ssl::stream<Socket&>&>(*tls_).native_handle());
  if (verdict == X509_V_OK) return std::nullopt;
  return X509_verify_cert_error_string(verdict);
}

std::string_view Wire::input() const {
  const auto bytes = input_.data();
  return {static_cast<const char*>(bytes.data()), reading_ ? 0 : bytes.size()};
}

void Wire::consume(size_t bytes) {
  input_.consume(bytes);
  looked_at_ = 0;
}

void Wire::begin_read() {
  const size_t room = std::min(kReadAtOnce, kMostInput - input_.size());
  if (room == 0) {
    read_error_ = net::error::no_buffer_space;
    return;
  }
  reading_ = true;
  with_stream([&](auto& stream) {
    stream.async_read_some(input_.prepare(room), [this](const ErrorCode& error, size_t count) {
      reading_ = false;
      read_error_ = error;
      input_.commit(count);
    });
  });
}

void Wire::listen() {
  if (!reading_ && !heard()) begin_read();
}

void Wire::begin_read_into(std::span<uint8_t> bytes) {
  read_count_ = 0;
  reading_ = true;
  with_stream([&](auto& stream) {
    stream.async_read_some(net::buffer(bytes.data(), bytes.size()),
                           [this](const ErrorCode& error, size_t count) {
                             reading_ = false;
                             read_error_ = error;
                             read_count_ = count;
                           });
  });
}

Wire::ErrorCode Wire::wait_for_read(Time until) {
  return run(until, [this] { return !reading_; });
}

void Wire::begin_write(std::span<const uint8_t> bytes) {
  writing_ = true;
  written_ = 0;
  with_stream([&](auto& stream) {
    stream.async_write_some(net::buffer(bytes.data(), bytes.size()),
                            [this](const ErrorCode& error, size_t size) {
                              writing_ = false;
                              write_error_ = error;
                              written_ = size;
                            });
  });
}

Wire::ErrorCode Wire::wait_for_either(Time until) {
  return run(until, [this] { return !writing_ || heard(); });
}

uint64_t Wire::moved() { return bytes_moved(socket_.native_handle()); }

void Wire::close() {
  ErrorCode ignored;
  socket_.close(ignored);
  run_whole([this] { return !reading_ && !writing_; });
}

bool Wire::still_good() {
  if (input_.size() > 0 || read_error_ || write_error_ || writing_) return false;
  listen();
  io_.restart();
  io_.poll();
  return !heard();
}

}  // namespace compilecache::http
