#include "archive/layer/seek_table.hpp"

#include <numeric>

namespace compilecache::archive {
namespace {

constexpr uint32_t kSkippableMagic = 0x184D2A5E;
constexpr uint32_t kSeekableMagic = 0x8F92EAB1;
constexpr uint8_t kChecksumFlag = 0x80;
constexpr uint8_t kReservedBits = 0x7C;
constexpr size_t kHeaderBytes = 8;  // magic, size
constexpr size_t kEntryBytes = 8;   // compressed, plain

void put_u32(std::string& out, uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) out.push_back(static_cast<char>(value >> shift));
}

uint32_t get_u32(std::span<const uint8_t> bytes, size_t at) {
  return static_cast<uint32_t>(bytes[at]) | static_cast<uint32_t>(bytes[at + 1]) << 8 |
         static_cast<uint32_t>(bytes[at + 2]) << 16 | static_cast<uint32_t>(bytes[at + 3]) << 24;
}

tl::unexpected<Error> corrupt(const std::string& what) {
  return fail(ErrorCode::kCorrupt, "seek table: " + what);
}

}  // namespace

uint64_t SeekTable::plain_bytes() const {
  return std::accumulate(frames.begin(), frames.end(), uint64_t{0},
                         [](uint64_t sum, const Frame& frame) { return sum + frame.plain; });
}

uint64_t SeekTable::compressed_bytes() const {
  return std::accumulate(frames.begin(), frames.end(), uint64_t{0},
                         [](uint64_t sum, const Frame& frame) { return sum + frame.compressed; });
}

std::string encode_seek_table(const SeekTable& table) {
  std::string out;
  put_u32(out, kSkippableMagic);
  put_u32(out, static_cast<uint32_t>(table.frames.size() * kEntryBytes + kSeekFooterBytes));
  for (const Frame& frame : table.frames) {
    put_u32(out, frame.compressed);
    put_u32(out, frame.plain);
  }
  put_u32(out, static_cast<uint32_t>(table.frames.size()));
  out.push_back('\0');
  put_u32(out, kSeekableMagic);
  return out;
}

Result<uint64_t> seek_table_bytes(std::span<const uint8_t> footer) {
  if (footer.size() != kSeekFooterBytes || get_u32(footer, 5) != kSeekableMagic)
    return corrupt("there is none at the end of the layer");
  const uint8_t descriptor = footer[4];
  if ((descriptor & kChecksumFlag) != 0 || (descriptor & kReservedBits) != 0)
    return corrupt("it has checksums or unknown flags, which our writers never set");
  return kHeaderBytes + uint64_t{get_u32(footer, 0)} * kEntryBytes + kSeekFooterBytes;
}

Result<SeekTable> parse_seek_table(std::span<const uint8_t> bytes, uint64_t layer_bytes,
                                   const Limits& limits) {
  if (bytes.size() < kHeaderBytes + kSeekFooterBytes || bytes.size() > layer_bytes)
    return corrupt("its length is impossible");
  auto expected = seek_table_bytes(bytes.last(kSeekFooterBytes));
  if (!expected) return unexpected(expected.error());
  if (*expected != bytes.size() || get_u32(bytes, 0) != kSkippableMagic ||
      get_u32(bytes, 4) != bytes.size() - kHeaderBytes) {
    return corrupt("header and footer disagree");
  }
  SeekTable table;
  table.frames.resize((bytes.size() - kHeaderBytes - kSeekFooterBytes) / kEntryBytes);
  for (size_t i = 0; i < table.frames.size(); ++i) {
    Frame& frame = table.frames[i];
    frame.compressed = get_u32(bytes, kHeaderBytes + i * kEntryBytes);
    frame.plain = get_u32(bytes, kHeaderBytes + i * kEntryBytes + 4);
    // zstd may add a little to what does not compress; 1/128 is more than it ever does.
    if (frame.plain > limits.max_frame_bytes ||
        frame.compressed > limits.max_frame_bytes + limits.max_frame_bytes / 128 + 1024) {
      return fail(ErrorCode::kTooLarge, "seek table: a frame of " + std::to_string(frame.plain) +
                                            " bytes; allowed are " +
                                            std::to_string(limits.max_frame_bytes));
    }
    if (frame.plain == 0 || frame.compressed == 0) return corrupt("it has an empty frame");
  }
  if (table.compressed_bytes() + bytes.size() != layer_bytes)
    return corrupt("its frames do not fill the layer");
  return table;
}

}  // namespace compilecache::archive
