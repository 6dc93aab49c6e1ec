#pragma once

#include <cstdint>
#include <functional>

namespace compilecache::archive {

// How far a read or write has come.
struct Progress {
  uint64_t compressed_bytes = 0;        // read from, or written to, the volume
  uint64_t plain_bytes = 0;             // decoded or packed
  uint64_t total_compressed_bytes = 0;  // 0: not known (writing)
  uint64_t total_plain_bytes = 0;
};

// Asked often (at least for each frame, and several times a second while waiting), always on the
// calling thread. False: give up; the call ends with kCancelled and leaves nothing behind. It
// cannot be asked while the calling thread hangs in a system call: who needs that has a watchdog of
// its own.
using Checkpoint = std::function<bool(const Progress&)>;

}  // namespace compilecache::archive
