#pragma once

#include <cstdint>
#include <functional>

namespace compilecache::archive {

// The progress of a read or write.
struct Progress {
  uint64_t compressed_bytes = 0;        // read from, or written to, the volume
  uint64_t plain_bytes = 0;             // decoded or packed
  uint64_t total_compressed_bytes = 0;  // 0: not known (writing)
  uint64_t total_plain_bytes = 0;
};

// Is called often (at least for each frame, and several times a second while waiting), always on
// the calling thread. If it returns false, the read or write gives up with kCancelled and leaves
// nothing behind. It is not called while the calling thread hangs in a system call: a caller that
// has to notice that needs a watchdog of its own.
using Checkpoint = std::function<bool(const Progress&)>;

}  // namespace compilecache::archive
