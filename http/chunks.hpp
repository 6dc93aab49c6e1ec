#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace compilecache::http {

// The body of an answer in chunks (RFC 9112, 7.1), in pieces as they come. Extensions and trailers
// are read past. Pure.
//
//   ChunkReader chunks;
//   auto step = chunks.read(input, buffer);   // step.consumed of input, step.produced in buffer
//   if (chunks.failed()) return false;        // what came is not chunks
//   if (chunks.done()) return true;           // the rest of input is not the body's
class ChunkReader {
 public:
  struct Step {
    size_t consumed = 0;
    size_t produced = 0;
  };
  // Goes on until all of the input is consumed, `bytes` is full, or the body is at its end.
  Step read(std::string_view input, std::span<uint8_t> bytes);

  [[nodiscard]] bool done() const { return state_ == State::kDone; }
  [[nodiscard]] bool failed() const { return state_ == State::kFailed; }

 private:
  enum class State {
    kFirstDigit,
    kSize,
    kExtension,
    kSizeEnd,
    kData,
    kDataEnd,
    kDataEndLine,
    kTrailerStart,
    kTrailer,
    kTrailerEnd,
    kLastLine,
    kDone,
    kFailed,
  };
  [[nodiscard]] State after(char c);
  [[nodiscard]] State after_size(char c);
  [[nodiscard]] State add_digit(char c);
  [[nodiscard]] State long_line(char c, State same, State end);

  State state_ = State::kFirstDigit;
  uint64_t left_ = 0;  // of the chunk
  size_t line_ = 0;    // bytes of a size's line, or of all trailers
};

}  // namespace compilecache::http
