#include "archive/layer/stored_frame.hpp"

#include <zstd.h>

#include <algorithm>
#include <cstring>

namespace compilecache::archive {
namespace {

constexpr size_t kBlock = 128U << 10;
constexpr size_t kFrameHeader = 9;
constexpr size_t kBlockHeader = 3;
// The content's size has four bytes, and the window is as large as the content.
constexpr uint8_t kDescriptor = 0x80 | 0x20;

void put(uint32_t value, size_t bytes, uint8_t* out) {
  for (; bytes > 0; --bytes, value >>= 8) *out++ = static_cast<uint8_t>(value);
}

uint32_t get(const uint8_t* in, size_t bytes) {
  uint32_t value = 0;
  for (size_t i = bytes; i > 0; --i) value = value << 8 | in[i - 1];
  return value;
}

}  // namespace

size_t store_frame(std::span<const uint8_t> plain, uint8_t* out) {
  uint8_t* const begin = out;
  put(ZSTD_MAGICNUMBER, 4, out);
  out[4] = kDescriptor;
  put(static_cast<uint32_t>(plain.size()), 4, out + 5);
  out += kFrameHeader;
  while (!plain.empty()) {
    const size_t count = std::min(plain.size(), kBlock);
    const uint32_t last = count == plain.size() ? 1 : 0;
    put(last | static_cast<uint32_t>(count) << 3, kBlockHeader, out);
    out += kBlockHeader;
    std::memmove(out, plain.data(), count);
    out += count;
    plain = plain.subspan(count);
  }
  return static_cast<size_t>(out - begin);
}

std::optional<std::vector<std::span<const uint8_t>>> stored_bytes(std::span<const uint8_t> frame,
                                                                  size_t plain) {
  if (frame.size() < kFrameHeader || get(frame.data(), 4) != ZSTD_MAGICNUMBER ||
      frame[4] != kDescriptor || get(frame.data() + 5, 4) != plain)
    return std::nullopt;
  std::vector<std::span<const uint8_t>> blocks;
  bool last = false;
  for (auto rest = frame.subspan(kFrameHeader); !rest.empty();) {
    if (last || rest.size() < kBlockHeader) return std::nullopt;
    const uint32_t header = get(rest.data(), kBlockHeader);
    const size_t count = header >> 3;
    const bool raw = (header & 6) == 0;
    last = (header & 1) != 0;
    rest = rest.subspan(kBlockHeader);
    if (!raw || count > kBlock || count > rest.size() || count > plain) return std::nullopt;
    blocks.push_back(rest.first(count));
    plain -= count;
    rest = rest.subspan(count);
  }
  if (!last || plain != 0) return std::nullopt;
  return blocks;
}

}  // namespace compilecache::archive
