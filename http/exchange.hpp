#pragma once

#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "http/chunks.hpp"
#include "http/message.hpp"
#include "http/session.hpp"
#include "http/wire.hpp"

// One request and its answer on a wire that is connected; internal to this folder.

namespace compilecache::http {

// How long is waited: for all, and for the next byte.
struct Patience {
  SteadyTime deadline = SteadyTime::max();
  std::chrono::milliseconds stall{15000};

  [[nodiscard]] bool over() const { return std::chrono::steady_clock::now() >= deadline; }
  [[nodiscard]] SteadyTime next() const {
    return std::min(deadline, std::chrono::steady_clock::now() + stall);
  }
};

struct Outgoing {
  std::string head;              // from the request line to the empty line, and a small body
  BodySource* source = nullptr;  // what follows
  bool bodyless = false;         // HEAD: the answer has no body, whatever it announces
};

class Exchange {
 public:
  Exchange(std::unique_ptr<Wire> wire, std::string where, Patience patience);
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  // Sends the request and receives the answer's head, which may come before all is sent. Errors are
  // those of Session::start().
  Status run(const Outgoing& outgoing);
  // After a failed run(): the connection was closed before anything of an answer came.
  [[nodiscard]] bool lost_unheard() const { return lost_ && !answered_; }

  // After run():
  [[nodiscard]] int status() const;
  [[nodiscard]] Headers headers() const;
  // As Answer::read().
  Result<size_t> read(std::span<uint8_t> bytes);

  // Passes over the body where all of it has come already.
  void skip_short_body();

  // Whether all of the request was sent and all of the answer received, and the server goes on
  // listening.
  [[nodiscard]] bool reusable() const;
  std::unique_ptr<Wire> release() { return std::move(wire_); }

 private:
  using Parser = boost::beast::http::response_parser<boost::beast::http::empty_body>;
  enum class Framing { kNone, kLength, kChunked, kToTheEnd };

  Status send(const Outgoing& outgoing);
  Status next_piece(const Outgoing& outgoing);
  Status receive_head();
  Status hear();
  void begin_answer();
  Status end_head();
  Status note_framing();
  Status await_input();
  Result<size_t> read_length(std::span<uint8_t> bytes);
  Result<size_t> read_chunks(std::span<uint8_t> bytes);
  Result<size_t> read_to_the_end(std::span<uint8_t> bytes);
  Result<size_t> take(std::span<uint8_t> bytes);
  template <typename Wait>
  Wire::ErrorCode patiently(Wait wait);
  tl::unexpected<Error> failed(const std::string& step, const Wire::ErrorCode& error);

  std::unique_ptr<Wire> wire_;
  const std::string where_;
  const Patience patience_;
  std::optional<Parser> parser_;
  bool bodyless_ = false;
  bool head_done_ = false;
  Framing framing_ = Framing::kNone;
  ChunkReader chunks_;
  uint64_t left_ = 0;  // of a body whose length is known
  bool body_done_ = false;
  std::vector<uint8_t> piece_;  // of the request, being sent
  std::span<const uint8_t> unsent_;
  uint64_t source_offset_ = 0;
  bool all_sent_ = false;
  bool answered_ = false;  // a byte has come
  bool lost_ = false;
  int interim_answers_ = 0;
  size_t head_bytes_ = 0;
};

}  // namespace compilecache::http
