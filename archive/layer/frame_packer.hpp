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
  // zstd's tables; 0: what the level says.
  unsigned chain_log = 0;
  unsigned hash_log = 0;
  size_t memory_bytes = 92U << 20;
};

// The settings with as many threads as memory allows, and where one is too much (levels above 15 or
// so) with smaller tables. Smaller frames would lose more than a higher level gains. What is
// written does not depend on the threads asked for.
CompressorSettings fit_memory(CompressorSettings settings);

// Makes zstd frames of plain bytes, in place: one of all, or, where that gains nothing, several
// small ones, which a reader decodes in less memory and side by side; what hardly compresses is
// stored as it is. Used from one thread.
class FramePacker {
 public:
  // What a buffer has before the plain bytes, for the headers of frames that do not shrink.
  static constexpr size_t kGap = 4096;

  explicit FramePacker(const CompressorSettings& settings);
  ~FramePacker();

  // `buffer` is kGap bytes and then the plain ones. What they become stands at its beginning
  // afterwards: the frames, one after the other. kInternal: zstd failed.
  Result<std::vector<Frame>> pack(std::span<uint8_t> buffer);

 private:
  struct Context;

  Result<std::vector<Frame>> pack_whole(std::span<uint8_t> buffer);
  Result<std::vector<Frame>> pack_pieces(std::span<uint8_t> buffer);
  Result<size_t> pack_piece(std::span<const uint8_t> piece, uint8_t* out);

  const CompressorSettings settings_;
  std::unique_ptr<Context> context_;
  LargeBytes room_;  // touched as far as needed
};

}  // namespace compilecache::archive
