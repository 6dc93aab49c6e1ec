#include "http/chunks.hpp"

#include <algorithm>
#include <cstring>
#include <optional>

namespace compilecache::http {

namespace {

constexpr size_t kLongestLine = 16U << 10;
constexpr uint64_t kLargestBeforeDigit = UINT64_MAX >> 4U;

std::optional<unsigned> chunk_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return std::nullopt;
}

}  // namespace

ChunkReader::Step ChunkReader::read(std::string_view input, std::span<uint8_t> bytes) {
  Step step;
  while (step.consumed < input.size() && !done() && !failed()) {
    if (state_ != State::kData) {
      state_ = after(input[step.consumed++]);
      continue;
    }
    const size_t room = std::min(input.size() - step.consumed, bytes.size() - step.produced);
    const size_t count = std::min<uint64_t>(room, left_);
    if (count == 0) break;  // `bytes` is full
    std::memcpy(bytes.data() + step.produced, input.data() + step.consumed, count);
    step.consumed += count;
    step.produced += count;
    left_ -= count;
    if (left_ == 0) state_ = State::kDataEnd;
  }
  return step;
}

ChunkReader::State ChunkReader::after(char c) {
  const auto if_is = [c](char wanted, State next) { return c == wanted ? next : State::kFailed; };
  switch (state_) {
    case State::kFirstDigit:
      left_ = line_ = 0;
      return add_digit(c);
    case State::kSize:
      return after_size(c);
    case State::kExtension:
      return long_line(c, State::kExtension, State::kSizeEnd);
    case State::kSizeEnd:
      line_ = 0;
      return if_is('\n', left_ == 0 ? State::kTrailerStart : State::kData);
    case State::kDataEnd:
      return if_is('\r', State::kDataEndLine);
    case State::kDataEndLine:
      return if_is('\n', State::kFirstDigit);
    case State::kTrailerStart:
      if (c == '\r') return State::kLastLine;
      return long_line(c, State::kTrailer, State::kFailed);
    case State::kTrailer:
      return long_line(c, State::kTrailer, State::kTrailerEnd);
    case State::kTrailerEnd:
      return if_is('\n', State::kTrailerStart);
    case State::kLastLine:
      return if_is('\n', State::kDone);
    case State::kData:
    case State::kDone:
    case State::kFailed:
      break;
  }
  return State::kFailed;
}

ChunkReader::State ChunkReader::after_size(char c) {
  if (c == '\r') return State::kSizeEnd;
  if (c == ';' || c == ' ' || c == '\t') return State::kExtension;
  return add_digit(c);
}

ChunkReader::State ChunkReader::add_digit(char c) {
  const auto digit = chunk_digit(c);
  if (!digit || left_ > kLargestBeforeDigit || ++line_ > kLongestLine) return State::kFailed;
  left_ = left_ * 16 + *digit;
  return State::kSize;
}

ChunkReader::State ChunkReader::long_line(char c, State same, State end) {
  if (c == '\n' || c == '\0' || ++line_ > kLongestLine) return State::kFailed;
  return c == '\r' ? end : same;
}

}  // namespace compilecache::http
