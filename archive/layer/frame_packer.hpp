#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "archive/layer/large_bytes.hpp"
#include "archive/layer/seek_table.hpp"
#include "base/error.hpp"

namespace compilecache::archive {

struct CompressorSettings {
  int level = 9;
  size_t frame_bytes = 16U << 20;
  unsigned threads = 2;
  // The sizes of zstd's tables; 0: those of the level.
  unsigned chain_log = 0;
  unsigned hash_log = 0;
  size_t memory_bytes = 92U << 20;
};

// Returns the settings with as many threads as the memory allows. If even one thread needs too much
// (at levels above about 15), the tables become smaller: smaller frames would lose more than a
// higher level gains. The output does not depend on the number of threads requested.
CompressorSettings fit_memory(CompressorSettings settings);

// Compresses plain bytes to zstd frames, in place. It makes one large frame or, if that gains
// nothing, several small ones, which a reader decodes in parallel and with less memory. Bytes that
// hardly compress are stored uncompressed. Used from one thread.
class FramePacker {
 public:
  // The bytes of a buffer before the plain ones: room for the headers of frames that do not shrink.
  static constexpr size_t kGap = 4096;

  explicit FramePacker(const CompressorSettings& settings);
  ~FramePacker();

  // `buffer` has kGap bytes and then the plain ones. Afterwards the frames are at its beginning,
  // one after the other. kInternal: zstd failed.
  Result<std::vector<Frame>> pack(std::span<uint8_t> buffer);

 private:
  struct Context;

  Result<std::vector<Frame>> pack_whole(std::span<uint8_t> buffer);
  Result<std::vector<Frame>> pack_pieces(std::span<uint8_t> buffer);
  Result<size_t> pack_piece(std::span<const uint8_t> piece, uint8_t* out);

  const CompressorSettings settings_;
  std::unique_ptr<Context> context_;
  LargeBytes room_;  // only the part in use takes memory
};

}  // namespace compilecache::archive
