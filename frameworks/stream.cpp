#include "frameworks/stream.hpp"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

namespace compilecache::frameworks {
namespace {

constexpr size_t kMagicBytes = 4;
constexpr uint32_t kZstdMagic = 0xFD2FB528;
constexpr size_t kChunk = 64U << 10;

uint32_t little_endian(std::span<const uint8_t> bytes) {
  uint32_t value = 0;
  for (size_t i = bytes.size(); i > 0; --i) value = value << 8U | bytes[i - 1];
  return value;
}

// RFC 8878: the frame's header says how long it is, each block's header how long the block is and
// whether it is the last one.
class ZstdFrame {
 public:
  ZstdFrame(const ReadAt& read, uint64_t size) : read_(read), size_(size) {}

  bool whole() {
    const auto descriptor = number(1);
    if (!descriptor) return false;
    const bool single_segment = (*descriptor & 0x20U) != 0;
    const bool checksum = (*descriptor & 0x04U) != 0;
    constexpr std::array<uint64_t, 4> kDictionary{0, 1, 2, 4};
    const std::array<uint64_t, 4> content_size{single_segment ? 1U : 0U, 2, 4, 8};
    at_ += (single_segment ? 0 : 1) + kDictionary.at(*descriptor & 3U) +
           content_size.at(*descriptor >> 6U);
    while (true) {
      const auto header = number(3);
      if (!header) return false;
      const uint32_t type = *header >> 1U & 3U;
      constexpr uint32_t kRepeatedByte = 1;
      constexpr uint32_t kReserved = 3;
      if (type == kReserved) return false;
      at_ += type == kRepeatedByte ? 1 : *header >> 3U;
      if ((*header & 1U) != 0) break;
    }
    return at_ + (checksum ? 4 : 0) <= size_;
  }

 private:
  std::optional<uint32_t> number(size_t bytes) {
    std::array<uint8_t, kMagicBytes> buffer{};
    const std::span<uint8_t> out(buffer.data(), bytes);
    if (at_ + bytes > size_ || !read_(at_, out)) return std::nullopt;
    at_ += bytes;
    return little_endian(out);
  }

  const ReadAt& read_;
  const uint64_t size_;
  uint64_t at_ = kMagicBytes;
};

class Inflater {
 public:
  Inflater() : good_(::inflateInit(&stream_) == Z_OK) {}
  ~Inflater() {
    if (good_) ::inflateEnd(&stream_);
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  bool whole(const ReadAt& read, uint64_t size) {
    if (!good_) return true;  // there is no memory to find out
    std::vector<uint8_t> in(kChunk);
    for (uint64_t at = 0; at < size;) {
      const auto length = static_cast<size_t>(std::min<uint64_t>(kChunk, size - at));
      if (!read(at, std::span(in.data(), length))) return false;
      at += length;
      stream_.next_in = in.data();
      stream_.avail_in = static_cast<uInt>(length);
      const int result = inflate_chunk();
      if (result == Z_STREAM_END) return true;
      if (result != Z_OK && result != Z_BUF_ERROR) return false;
    }
    return false;
  }

 private:
  int inflate_chunk() {
    int result = Z_OK;
    do {
      stream_.next_out = out_.data();
      stream_.avail_out = static_cast<uInt>(out_.size());
      result = ::inflate(&stream_, Z_NO_FLUSH);
    } while (result == Z_OK && (stream_.avail_in > 0 || stream_.avail_out == 0));
    return result;
  }

  z_stream stream_{};
  const bool good_;
  std::vector<uint8_t> out_ = std::vector<uint8_t>(kChunk);
};

// RFC 1950: method 8, a window of at most 32 KiB, and a check of these two bytes.
bool is_zlib(std::span<const uint8_t> start) {
  const uint32_t check = start[0] * 256U + start[1];
  return (start[0] & 0x0FU) == 8 && start[0] >> 4U <= 7 && check % 31 == 0;
}

}  // namespace

bool stream_whole(const ReadAt& read, uint64_t size) {
  std::array<uint8_t, kMagicBytes> start{};
  if (size < start.size() || !read(0, start)) return false;
  if (little_endian(start) == kZstdMagic) return ZstdFrame(read, size).whole();
  if (is_zlib(start)) return Inflater().whole(read, size);
  return true;
}

}  // namespace compilecache::frameworks
