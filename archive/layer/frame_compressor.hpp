#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "archive/blob_store.hpp"
#include "archive/layer/frame_packer.hpp"
#include "archive/layer/large_bytes.hpp"
#include "archive/layer/seek_table.hpp"
#include "base/error.hpp"
#include "base/mutex.hpp"

// Cuts a stream into frames, compresses them in parallel and writes them in order, then the seek
// table. The bytes written depend on the input and the settings alone, not on the threads.
//
// Memory: one frame more than there are threads; for each thread room for half a frame, and zstd's
// own memory. With the settings that fit_memory() returns it stays below memory_bytes at any level.
// Used from one thread.

namespace compilecache::archive {

class FrameCompressor {
 public:
  // `blob` must outlive it, and must not be used by others until finish() returns.
  FrameCompressor(BlobWriter& blob, const CompressorSettings& settings);
  ~FrameCompressor();
  FrameCompressor(const FrameCompressor&) = delete;
  FrameCompressor& operator=(const FrameCompressor&) = delete;

  // May return an error of an earlier frame: the first that there was.
  Status append(std::span<const uint8_t> bytes);
  // Compresses what is left and writes the seek table. Call it once, at the end.
  Status finish();

  [[nodiscard]] uint64_t plain_bytes() const { return plain_bytes_; }
  [[nodiscard]] uint64_t written_bytes() const;
  // Valid after finish().
  [[nodiscard]] const std::vector<Frame>& frames() const { return table_.frames; }

 private:
  enum class State { kFree, kFilled, kPacked };
  struct Slot {
    State state = State::kFree;
    LargeBytes bytes;  // FramePacker::kGap bytes, then the plain ones
    size_t plain = 0;
    std::vector<Frame> frames;
  };

  Slot& current() { return slots_[filled_ % slots_.size()]; }
  Status submit();
  Status wait_until_written(size_t frames);
  void start_threads();
  void work();
  void pack(Slot& slot, FramePacker& packer) EXCLUDES(mutex_);
  Status write(const Slot& slot);

  BlobWriter& blob_;
  const CompressorSettings settings_;
  uint64_t plain_bytes_ = 0;

  mutable Mutex mutex_;
  CondVar changed_;
  std::vector<Slot> slots_;              // its state says who may use a slot's content
  size_t filled_ = 0;                    // frames handed to the workers; only the caller changes it
  size_t taken_ GUARDED_BY(mutex_) = 0;  // frames that a worker has begun
  size_t written_ GUARDED_BY(mutex_) = 0;    // frames in the blob
  bool writing_ GUARDED_BY(mutex_) = false;  // a thread writes the oldest
  uint64_t written_bytes_ GUARDED_BY(mutex_) = 0;
  SeekTable table_;  // belongs to the thread that writes, after finish() to all
  Status status_ GUARDED_BY(mutex_);
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
  std::unique_ptr<FramePacker> own_;  // for the caller's thread
};

}  // namespace compilecache::archive
