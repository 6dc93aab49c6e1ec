#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "archive/blob.hpp"
#include "archive/seek_table.hpp"
#include "base/error.hpp"

// Cuts a stream into frames, compresses them in parallel and writes them in order, then the seek
// table. The bytes written depend on the input and the settings alone, not on the threads.
//
// Memory: for each thread, and one more, a frame in plain and compressed form, and zstd's own; what
// fit_memory() returns stays below kCompressorBytes at any level.
// Used from one thread.

namespace compilecache::archive {

struct CompressorSettings {
  int level = 9;
  size_t frame_bytes = 8U << 20;
  unsigned threads = 2;
  // zstd's tables; 0: what the level says.
  unsigned chain_log = 0;
  unsigned hash_log = 0;
};

inline constexpr size_t kCompressorBytes = 80U << 20;

// The settings with as many threads as memory allows, and where one is too much (levels above 15 or
// so) with smaller tables. Smaller frames would lose more than a higher level gains. What is
// written does not depend on the threads asked for.
CompressorSettings fit_memory(CompressorSettings settings);

class FrameCompressor {
 public:
  // `blob` must outlive it.
  FrameCompressor(BlobWriter& blob, const CompressorSettings& settings);
  ~FrameCompressor();
  FrameCompressor(const FrameCompressor&) = delete;
  FrameCompressor& operator=(const FrameCompressor&) = delete;

  Status append(std::span<const uint8_t> bytes);
  // Compresses what is left and writes the seek table. Call it once, at the end.
  Status finish();

  [[nodiscard]] uint64_t plain_bytes() const { return plain_bytes_; }

 private:
  enum class State { kFree, kFilled, kCompressed };
  struct Slot {
    State state = State::kFree;
    std::vector<uint8_t> plain;
    std::unique_ptr<uint8_t[]> compressed;  // room for the worst case, touched as far as needed
    size_t compressed_size = 0;
    const char* problem = nullptr;  // zstd's, when it failed
  };
  struct Worker;

  Slot& current() { return slots_[filled_ % slots_.size()]; }
  Status submit();
  void start_threads();
  void compress_here();
  Status write_oldest();
  void work();
  // With the level of the settings, unless the frame hardly compresses: then as fast as it goes.
  static void compress(Slot& slot, Worker& worker);

  BlobWriter& blob_;
  CompressorSettings settings_;
  SeekTable table_;
  uint64_t plain_bytes_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Slot> slots_;
  size_t filled_ = 0;   // frames handed to the workers
  size_t taken_ = 0;    // frames that a worker has begun
  size_t written_ = 0;  // frames in the blob
  bool stopping_ = false;
  std::vector<std::thread> threads_;
  std::unique_ptr<Worker> own_;  // for the caller's thread
};

}  // namespace compilecache::archive
