#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/cutoff.hpp"
#include "http/tls.hpp"

// A connection to a server as its client sees it, TCP or TLS over TCP, in a blocking way with a
// deadline for each step; internal to this folder. One read and one write may be under way at a
// time, so that an answer is read while a body is being sent. Data read in the background lies
// in `input()`.
// Not thread-safe.

namespace compilecache::http {

class Wire {
 public:
  using ErrorCode = boost::system::error_code;
  using Time = Cutoff::Time;

  // How much is read ahead, and so the longest head of an answer or line of a chunk.
  static constexpr size_t kMostInput = 64U << 10;

  // Every wait ends at the cutoff too (null: there is none), which has to outlive it.
  explicit Wire(const Cutoff* cutoff) : cutoff_(cutoff) {}
  ~Wire();
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  // One address, without resolving.
  ErrorCode connect(const std::string& address, uint16_t port, Time until);
  // The TLS handshake; the server has to prove to be `host`, a name or an address.
  ErrorCode secure(TlsContext tls, const std::string& host, Time until);
  // Why the certificate was not good enough; nothing when that was not the reason.
  [[nodiscard]] std::optional<std::string> certificate_trouble() const;

  // Reads into input() in the background, unless that is under way or there is news already.
  void listen();
  // Whether there is news: input beyond what was there at not_enough(), or the connection's end.
  [[nodiscard]] bool heard() const {
    return !reading_ && (input_.size() > looked_at_ || read_error_);
  }
  [[nodiscard]] std::string_view input() const;
  void consume(size_t bytes);
  // input() holds the beginning of something: wait for the rest.
  void not_enough() { looked_at_ = input_.size(); }
  // Reads past input(), which has to be empty. The bytes are the wire's until it is over, or
  // close().
  void begin_read_into(std::span<uint8_t> bytes);
  [[nodiscard]] size_t read_count() const { return read_count_; }
  // Until the read is over. `timed_out` leaves it under way.
  ErrorCode wait_for_read(Time until);
  [[nodiscard]] ErrorCode read_error() const { return read_error_; }

  // Sends the beginning of the bytes, in the background. They are the wire's until it is over, or
  // close().
  void begin_write(std::span<const uint8_t> bytes);
  [[nodiscard]] bool writing() const { return writing_; }
  // How many of them were sent, reported once; and what went wrong.
  size_t take_written() { return std::exchange(written_, 0); }
  [[nodiscard]] ErrorCode write_error() const { return write_error_; }

  // Until the write is over, or there is news.
  ErrorCode wait_for_either(Time until);
  // Bytes that went either way, as the kernel counts them; 0 where it does not.
  [[nodiscard]] uint64_t moved();
  // Whether a kept connection is still good: open, and silent since.
  bool still_good();
  // Ends what is under way, too.
  void close();

 private:
  using Socket = boost::asio::ip::tcp::socket;

  template <typename Done>
  ErrorCode run(Time until, Done done);
  template <typename Done>
  void run_whole(Done done);
  template <typename Use>
  void with_stream(Use use);
  template <typename Start>
  ErrorCode finish(Time until, Start start);
  void begin_read();

  const Cutoff* const cutoff_;
  boost::asio::io_context io_{1};
  TlsContext context_;
  Socket socket_{io_};
  std::optional<boost::asio::ssl::stream<Socket&>> tls_;
  boost::beast::flat_buffer input_{kMostInput};
  bool reading_ = false;
  bool writing_ = false;
  size_t looked_at_ = 0;
  size_t read_count_ = 0;
  size_t written_ = 0;
  ErrorCode read_error_;
  ErrorCode write_error_;
};

}  // namespace compilecache::http
