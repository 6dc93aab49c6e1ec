#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "archive/format.hpp"
#include "base/error.hpp"

// The table at the end of a layer that says where its zstd frames begin. Source: zstd's
// contrib/seekable_format/zstd_seekable_compression_format.md, without checksums (the blob's digest
// covers everything). It is a skippable frame, so decoders that do not know it ignore it.

namespace compilecache::archive {

struct Frame {
  uint32_t compressed = 0;
  uint32_t plain = 0;
};

struct SeekTable {
  std::vector<Frame> frames;

  [[nodiscard]] uint64_t plain_bytes() const;
  [[nodiscard]] uint64_t compressed_bytes() const;  // of the frames, without the table
};

std::string encode_seek_table(const SeekTable& table);

// Reads the length of a layer's table from its footer, the last bytes of the layer. kCorrupt: there
// is no table.
inline constexpr size_t kSeekFooterBytes = 9;
Result<uint64_t> seek_table_bytes(std::span<const uint8_t> footer);

// `bytes` is the whole table, `layer_bytes` the size of the layer that it ends. kCorrupt when they
// do not fit together, kTooLarge over a limit.
Result<SeekTable> parse_seek_table(std::span<const uint8_t> bytes, uint64_t layer_bytes,
                                   const Limits& limits);

}  // namespace compilecache::archive
