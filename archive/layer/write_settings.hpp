#pragma once

#include <cstddef>
#include <cstdint>

#include "archive/format.hpp"

namespace compilecache::archive {

inline constexpr uint64_t kManyFiles = 10'000;
inline constexpr uint64_t kFrameOfMany = 4ULL << 20;

struct WriteSettings {
  int compression_level = 9;  // zstd's, 1 to 19
  // Plain bytes of a frame, 64 KiB to Limits::max_frame_bytes. Larger ones find more that files
  // have in common (16 near-equal vLLM caches, 571 MB: 11 MB in frames of 4 MiB, 7.6 in 8, 3.9 in
  // 16). Smaller ones take less memory. Archives of more than kManyFiles have none larger than
  // kFrameOfMany, as lists of files take memory too.
  uint64_t frame_bytes = 16ULL << 20;
  unsigned threads = 2;                     // threads that compress
  size_t compressor_bytes = 92U << 20;      // less if there are many files
  uint64_t max_archive_bytes = 1ULL << 30;  // all its blobs together
  // The same files make other bytes with another one. Readers do not see it.
  unsigned variation = 0;
  Limits limits;
};

}  // namespace compilecache::archive
