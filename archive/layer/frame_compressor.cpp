#include "archive/layer/frame_compressor.hpp"

#include <algorithm>
#include <cstring>
#include <system_error>

namespace compilecache::archive {

FrameCompressor::FrameCompressor(BlobWriter& blob, const CompressorSettings& settings)
    : blob_(blob), settings_(fit_memory(settings)) {
  slots_.resize(settings_.threads + 1);
}

FrameCompressor::~FrameCompressor() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

Status FrameCompressor::append(std::span<const uint8_t> bytes) {
  plain_bytes_ += bytes.size();
  while (!bytes.empty()) {
    Slot& slot = current();
    if (!slot.bytes) {
      slot.bytes = make_large_bytes(FramePacker::kGap + settings_.frame_bytes);
    }
    const size_t count = std::min(bytes.size(), settings_.frame_bytes - slot.plain);
    std::memcpy(slot.bytes.get() + FramePacker::kGap + slot.plain, bytes.data(), count);
    slot.plain += count;
    bytes = bytes.subspan(count);
    if (slot.plain == settings_.frame_bytes) {
      if (auto done = submit(); !done) return done;
    }
  }
  return {};
}

// Hands the filled slot to the workers and makes the next one free.
Status FrameCompressor::submit() {
  if (threads_.empty()) start_threads();
  {
    const MutexLock lock(mutex_);
    current().state = State::kFilled;
    ++filled_;
    if (threads_.empty()) ++taken_;
  }
  changed_.notify_all();
  if (threads_.empty()) {
    if (!own_) own_ = std::make_unique<FramePacker>(settings_);
    pack(slots_[(filled_ - 1) % slots_.size()], *own_);
  }
  return filled_ < slots_.size() ? Status{} : wait_until_written(filled_ - slots_.size() + 1);
}

Status FrameCompressor::wait_until_written(size_t frames) {
  const MutexLock lock(mutex_);
  changed_.wait(mutex_, [&]() REQUIRES(mutex_) { return !status_ || written_ >= frames; });
  return status_;
}

void FrameCompressor::start_threads() {
  try {
    for (unsigned i = 0; i < settings_.threads; ++i) threads_.emplace_back([this] { work(); });
  } catch (const std::system_error&) {
    // A limit on processes was reached: the threads that exist do the work, or else the caller's
    // thread.
  }
}

void FrameCompressor::work() {
  FramePacker packer(settings_);
  MutexLock lock(mutex_);
  for (;;) {
    changed_.wait(mutex_,
                  [this]() REQUIRES(mutex_) { return stopping_ || !status_ || taken_ < filled_; });
    if (stopping_ || !status_) return;
    Slot& slot = slots_[taken_++ % slots_.size()];
    lock.unlock();
    pack(slot, packer);
    lock.lock();
  }
}

// A thread that has packed a frame then writes all frames that are ready, in order. Only one thread
// writes at a time.
void FrameCompressor::pack(Slot& packed, FramePacker& packer) {
  Result<std::vector<Frame>> frames;
  try {
    frames = packer.pack({packed.bytes.get(), FramePacker::kGap + packed.plain});
  } catch (const std::exception& problem) {
    frames = fail(ErrorCode::kInternal, std::string("compressing a frame: ") + problem.what());
  }
  MutexLock lock(mutex_);
  if (frames) {
    packed.frames = std::move(*frames);
    packed.state = State::kPacked;
  } else if (status_) {
    status_ = unexpected(frames.error());
  }
  while (status_ && !writing_ && slots_[written_ % slots_.size()].state == State::kPacked) {
    Slot& slot = slots_[written_ % slots_.size()];
    writing_ = true;
    lock.unlock();
    const Status written = write(slot);
    lock.lock();
    writing_ = false;
    if (!written) {
      status_ = written;
      break;
    }
    table_.frames.insert(table_.frames.end(), slot.frames.begin(), slot.frames.end());
    slot.plain = 0;
    slot.state = State::kFree;
    ++written_;
    written_bytes_ = blob_.size();
    changed_.notify_all();
  }
  changed_.notify_all();
}

Status FrameCompressor::write(const Slot& slot) {
  size_t bytes = 0;
  for (const Frame& frame : slot.frames) bytes += frame.compressed;
  return blob_.write({slot.bytes.get(), bytes});
}

uint64_t FrameCompressor::written_bytes() const {
  const MutexLock lock(mutex_);
  return written_bytes_;
}

Status FrameCompressor::finish() {
  Slot& last = current();
  if (last.plain > 0 && filled_ == 0) {  // a single frame is not worth a thread
    {
      const MutexLock lock(mutex_);
      ++filled_;
      ++taken_;
    }
    own_ = std::make_unique<FramePacker>(settings_);
    pack(last, *own_);
  } else if (last.plain > 0) {
    if (auto done = submit(); !done) return done;
  }
  if (auto done = wait_until_written(filled_); !done) return done;
  const std::string table = encode_seek_table(table_);
  auto written = blob_.write({reinterpret_cast<const uint8_t*>(table.data()), table.size()});
  const MutexLock lock(mutex_);
  written_bytes_ = blob_.size();
  return written;
}

}  // namespace compilecache::archive
