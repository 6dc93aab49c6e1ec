#include "archive/frame_compressor.hpp"

#include <zstd.h>

#include <algorithm>

namespace compilecache::archive {

struct FrameCompressor::Worker {
  explicit Worker(int level) : context(ZSTD_createCCtx(), &ZSTD_freeCCtx) {
    if (!context) return;
    ZSTD_CCtx_setParameter(context.get(), ZSTD_c_compressionLevel, level);
    ZSTD_CCtx_setParameter(context.get(), ZSTD_c_checksumFlag, 0);
    ZSTD_CCtx_setParameter(context.get(), ZSTD_c_contentSizeFlag, 1);
  }
  std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)> context;
};

FrameCompressor::FrameCompressor(BlobWriter& blob, const CompressorSettings& settings)
    : blob_(blob), settings_(settings) {
  settings_.threads = std::max(1U, settings.threads);
  slots_.resize(settings_.threads + 1);
}

FrameCompressor::~FrameCompressor() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

Status FrameCompressor::append(std::span<const uint8_t> bytes) {
  plain_bytes_ += bytes.size();
  while (!bytes.empty()) {
    std::vector<uint8_t>& plain = current().plain;
    if (plain.capacity() < settings_.frame_bytes) plain.reserve(settings_.frame_bytes);
    const size_t count = std::min(bytes.size(), settings_.frame_bytes - plain.size());
    plain.insert(plain.end(), bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(count));
    bytes = bytes.subspan(count);
    if (plain.size() == settings_.frame_bytes) {
      if (auto done = submit(); !done) return done;
    }
  }
  return {};
}

// Hands the filled slot to the workers and makes the next one free.
Status FrameCompressor::submit() {
  if (threads_.empty()) {
    for (unsigned i = 0; i < settings_.threads; ++i) threads_.emplace_back([this] { work(); });
  }
  {
    const std::lock_guard lock(mutex_);
    current().state = State::kFilled;
    ++filled_;
  }
  changed_.notify_all();
  if (filled_ - written_ < slots_.size()) return {};
  return write_oldest();
}

Status FrameCompressor::write_oldest() {
  Slot& slot = slots_[written_ % slots_.size()];
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return slot.state == State::kCompressed; });
  }
  // No worker touches a compressed slot.
  if (slot.problem != nullptr)
    return fail(ErrorCode::kInternal, std::string("compressing a frame: ") + slot.problem);
  if (auto written = blob_.write(slot.compressed); !written) return written;
  table_.frames.push_back(
      {static_cast<uint32_t>(slot.compressed.size()), static_cast<uint32_t>(slot.plain.size())});
  slot.plain.clear();
  slot.state = State::kFree;
  ++written_;
  return {};
}

Status FrameCompressor::finish() {
  Slot& last = current();
  if (!last.plain.empty()) {
    if (threads_.empty()) {  // one frame in all: not worth a thread
      Worker worker(settings_.level);
      compress(last, worker);
      last.state = State::kCompressed;
      ++filled_;
    } else if (auto done = submit(); !done) {
      return done;
    }
  }
  while (written_ < filled_) {
    if (auto done = write_oldest(); !done) return done;
  }
  const std::string table = encode_seek_table(table_);
  return blob_.write({reinterpret_cast<const uint8_t*>(table.data()), table.size()});
}

void FrameCompressor::work() {
  Worker worker(settings_.level);
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || taken_ < filled_; });
    if (stopping_) return;
    Slot& slot = slots_[taken_++ % slots_.size()];
    lock.unlock();
    compress(slot, worker);
    lock.lock();
    slot.state = State::kCompressed;
    changed_.notify_all();
  }
}

void FrameCompressor::compress(Slot& slot, Worker& worker) {
  slot.problem = worker.context ? nullptr : "out of memory";
  if (slot.problem == nullptr) {
    slot.compressed.resize(ZSTD_compressBound(slot.plain.size()));
    const size_t size =
        ZSTD_compress2(worker.context.get(), slot.compressed.data(), slot.compressed.size(),
                       slot.plain.data(), slot.plain.size());
    if (ZSTD_isError(size) != 0) {
      slot.problem = ZSTD_getErrorName(size);
    } else {
      slot.compressed.resize(size);
    }
  }
}

}  // namespace compilecache::archive
