#include "http/exchange.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/ssl/error.hpp>
#include <cstring>

namespace compilecache::http {

namespace net = boost::asio;
namespace bhttp = boost::beast::http;

namespace {

constexpr size_t kPiece = 64U << 10;          // of a streamed body
constexpr uint32_t kMostHead = 48U << 10;     // of an answer
constexpr int kMostInterimAnswers = 16;       // 100, 103
static_assert(kMostHead < Wire::kMostInput);  // so that the parser is the one who refuses

bool is_parsers(const Wire::ErrorCode& error) {
  return error.category() == make_error_code(bhttp::error::bad_method).category();
}

// Whether the error says that the other side has closed.
bool is_end(const Wire::ErrorCode& error) {
  return error == net::error::eof || error == net::ssl::error::stream_truncated ||
         error == net::error::connection_reset || error == net::error::broken_pipe ||
         error == net::error::connection_aborted;
}

net::const_buffer buffer_of(std::string_view text) { return {text.data(), text.size()}; }

}  // namespace

Exchange::Exchange(std::unique_ptr<Wire> wire, std::string where, Patience patience)
    : wire_(std::move(wire)), where_(std::move(where)), patience_(patience) {}

// The wire may still be sending a piece.
Exchange::~Exchange() { wire_.reset(); }

Status Exchange::run(const Outgoing& outgoing) {
  bodyless_ = outgoing.bodyless;
  piece_.assign(outgoing.head.begin(), outgoing.head.end());
  unsent_ = piece_;
  begin_answer();
  auto done = send(outgoing);
  if (done && !head_done_) done = receive_head();
  return done;
}

void Exchange::begin_answer() {
  parser_.emplace();
  parser_->header_limit(kMostHead);
  parser_->body_limit(UINT64_MAX);  // Beast 1.74 takes none for zero
  if (bodyless_) parser_->skip(true);
}

// Waits in steps of the stall's length for as long as bytes go either way.
template <typename Wait>
Wire::ErrorCode Exchange::patiently(Wait wait) {
  uint64_t moved = wire_->moved();
  for (;;) {
    const auto error = wait(patience_.next());
    if (error != net::error::timed_out || patience_.over()) return error;
    const uint64_t now = wire_->moved();
    if (now == moved) return error;
    moved = now;
  }
}

Status Exchange::send(const Outgoing& outgoing) {
  while (!head_done_) {
    if (!wire_->writing()) {
      unsent_ = unsent_.subspan(wire_->take_written());
      // A server that refuses in mid-request answers and closes: the answer is worth reading.
      if (wire_->write_error()) return {};
      if (auto next = next_piece(outgoing); !next) return next;
      if (all_sent_) return {};
      wire_->begin_write(unsent_);
    }
    wire_->listen();
    const auto error =
        patiently([this](SteadyTime until) { return wire_->wait_for_either(until); });
    if (error) return failed("sending", error);
    if (!wire_->heard()) continue;
    if (auto heard = hear(); !heard) return heard;
  }
  return {};
}

// Sees to it that there is something to send, or that all was sent.
Status Exchange::next_piece(const Outgoing& outgoing) {
  if (!unsent_.empty()) return {};
  const uint64_t size = outgoing.source == nullptr ? 0 : outgoing.source->size();
  all_sent_ = source_offset_ == size;
  if (all_sent_) return {};
  piece_.resize(std::min<uint64_t>(kPiece, size - source_offset_));
  if (auto read = outgoing.source->read_at(piece_, source_offset_); !read) return read;
  source_offset_ += piece_.size();
  unsent_ = piece_;
  return {};
}

Status Exchange::receive_head() {
  while (!head_done_) {
    wire_->listen();
    const auto error = patiently([this](SteadyTime until) { return wire_->wait_for_read(until); });
    if (error) return failed("waiting for the answer", error);
    if (auto heard = hear(); !heard) return heard;
  }
  return {};
}

// Takes news from the wire: more of the answer's head, or the connection's end.
Status Exchange::hear() {
  while (!head_done_ && !wire_->input().empty()) {
    answered_ = true;
    boost::system::error_code error;
    const size_t parsed = parser_->put(buffer_of(wire_->input()), error);
    wire_->consume(parsed);
    // Beast 1.74 counts what it was given at once, and takes in a field at a time.
    head_bytes_ += parsed;
    if (head_bytes_ > kMostHead) error = bhttp::error::header_limit;
    if (error == bhttp::error::need_more) {
      wire_->not_enough();
      break;
    }
    if (error) return failed("reading the answer", error);
    if (!parser_->is_header_done()) continue;
    if (auto done = end_head(); !done) return done;
  }
  if (head_done_ || !wire_->read_error()) return {};
  return failed("waiting for the answer", wire_->read_error());
}

// A whole head has come: the answer's, or that of a "100 Continue" before it.
Status Exchange::end_head() {
  if (status() / 100 != 1) {
    head_done_ = true;
    return note_framing();
  }
  if (status() == 101 || ++interim_answers_ > kMostInterimAnswers) {
    return fail(ErrorCode::kCorrupt, where_ + ": the server answered " + std::to_string(status()) +
                                         ", which nobody asked for");
  }
  begin_answer();
  return {};
}

Status Exchange::note_framing() {
  const auto& fields = parser_->get();
  const auto coding = fields.find(bhttp::field::transfer_encoding);
  if (parser_->is_done()) {
    body_done_ = true;
  } else if (coding != fields.end()) {
    framing_ = Framing::kChunked;
    const bool plain = boost::beast::iequals(coding->value(), "chunked");
    if (!plain || fields.count(bhttp::field::transfer_encoding) > 1) {
      return fail(ErrorCode::kCorrupt,
                  where_ + ": the answer has a Transfer-Encoding other than \"chunked\"");
    }
  } else if (const auto length = parser_->content_length()) {
    framing_ = Framing::kLength;
    left_ = *length;
    body_done_ = left_ == 0;
  } else {
    framing_ = Framing::kToTheEnd;
  }
  return {};
}

int Exchange::status() const { return static_cast<int>(parser_->get().result_int()); }

Headers Exchange::headers() const {
  Headers headers;
  for (const auto& field : parser_->get()) {
    headers.emplace_back(field.name_string(), field.value());
  }
  return headers;
}

bool Exchange::reusable() const {
  return wire_ && body_done_ && all_sent_ && framing_ != Framing::kToTheEnd &&
         parser_->keep_alive() && wire_->input().empty() && !wire_->read_error();
}

Result<size_t> Exchange::read(std::span<uint8_t> bytes) {
  if (body_done_ || bytes.empty()) return 0;
  if (framing_ == Framing::kChunked) return read_chunks(bytes);
  if (framing_ == Framing::kLength) return read_length(bytes);
  return read_to_the_end(bytes);
}

void Exchange::skip_short_body() {
  if (framing_ != Framing::kLength || left_ > wire_->input().size()) return;
  wire_->consume(left_);
  left_ = 0;
  body_done_ = true;
}

// Some bytes of the body as they are on the wire; 0 at the end of the connection.
Result<size_t> Exchange::take(std::span<uint8_t> bytes) {
  if (const std::string_view input = wire_->input(); !input.empty()) {
    const size_t count = std::min(input.size(), bytes.size());
    std::memcpy(bytes.data(), input.data(), count);
    wire_->consume(count);
    return count;
  }
  if (!wire_->read_error()) {
    wire_->begin_read_into(bytes);
    const auto error = patiently([this](SteadyTime until) { return wire_->wait_for_read(until); });
    if (error) {
      wire_->close();
      return failed("reading the answer", error);
    }
    if (wire_->read_count() > 0) return wire_->read_count();
  }
  if (wire_->read_error() == net::error::eof) return 0;
  return failed("reading the answer", wire_->read_error());
}

Result<size_t> Exchange::read_length(std::span<uint8_t> bytes) {
  const auto count = take(bytes.first(std::min<uint64_t>(bytes.size(), left_)));
  if (!count) return count;
  if (*count == 0) {
    lost_ = true;
    return fail(ErrorCode::kUnavailable, where_ + ": the answer was cut off " +
                                             std::to_string(left_) + " bytes before its end");
  }
  left_ -= *count;
  body_done_ = left_ == 0;
  return count;
}

Result<size_t> Exchange::read_to_the_end(std::span<uint8_t> bytes) {
  auto count = take(bytes);
  if (count && *count == 0) body_done_ = true;
  return count;
}

Result<size_t> Exchange::read_chunks(std::span<uint8_t> bytes) {
  size_t count = 0;
  while (count == 0 && !chunks_.done()) {
    if (wire_->input().empty()) {
      if (auto more = await_input(); !more) return unexpected(more.error());
    }
    const auto step = chunks_.read(wire_->input(), bytes);
    wire_->consume(step.consumed);
    count = step.produced;
    if (chunks_.failed()) {
      return fail(ErrorCode::kCorrupt, where_ + ": reading the answer: it is not in chunks");
    }
  }
  body_done_ = chunks_.done();
  return count;
}

Status Exchange::await_input() {
  Wire::ErrorCode error = wire_->read_error();
  if (!error) {
    wire_->listen();
    error = patiently([this](SteadyTime until) { return wire_->wait_for_read(until); });
  }
  if (!error && wire_->input().empty()) error = wire_->read_error();
  if (error) return failed("reading the answer", error);
  return {};
}

tl::unexpected<Error> Exchange::failed(const std::string& step, const Wire::ErrorCode& error) {
  const std::string what = where_ + ": " + step + ": ";
  if (error == net::error::timed_out) {
    const std::string why = patience_.over() ? "the time for it is up"
                                             : "not a byte came or went for " +
                                                   std::to_string(patience_.stall.count()) + " ms";
    return fail(ErrorCode::kTimeout, what + why);
  }
  if (error == net::error::no_buffer_space || error == bhttp::error::header_limit) {
    return fail(ErrorCode::kCorrupt, what + "it has a line or a head that is too long");
  }
  if (is_parsers(error)) {
    return fail(ErrorCode::kCorrupt, what + "not HTTP (" + error.message() + ")");
  }
  lost_ = true;
  if (is_end(error)) return fail(ErrorCode::kUnavailable, what + "the connection was closed");
  return fail(ErrorCode::kUnavailable, what + error.message());
}

}  // namespace compilecache::http
