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
// Memory: for each thread, and one more, a frame in plain and compressed form, and zstd's own.
// Used from one thread.

namespace compilecache::archive {

struct CompressorSettings {
  int level = 9;
  size_t frame_bytes = 4U << 20;
  unsigned threads = 2;
};

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
    std::vector<uint8_t> compressed;
    const char* problem = nullptr;  // zstd's, when it failed
  };
  struct Worker;

  Slot& current() { return slots_[filled_ % slots_.size()]; }
  Status submit();
  Status write_oldest();
  void work();
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
};

}  // namespace compilecache::archive
