#include "archive/frame_compressor.hpp"

// For the estimate of what a context takes.
#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

#include <algorithm>
#include <system_error>

#include "archive/compressibility.hpp"

namespace compilecache::archive {

namespace {

constexpr unsigned kMinTableLog = 17;
// Of a frame that looked as if it would hardly compress: below this it does, after all.
constexpr size_t kInVainPercent = 90;
// The largest window that a reader accepts; a frame is no longer.
constexpr int kWindowLog = 24;
// What the context for such frames takes.
constexpr size_t kFastContextBytes = 3U << 20;

size_t memory_estimate(const CompressorSettings& settings) {
  ZSTD_compressionParameters parameters = ZSTD_getCParams(settings.level, settings.frame_bytes, 0);
  if (settings.chain_log != 0) parameters.chainLog = settings.chain_log;
  if (settings.hash_log != 0) parameters.hashLog = settings.hash_log;
  const size_t context = ZSTD_estimateCCtxSize_usingCParams(parameters);
  return settings.threads * (context + kFastContextBytes + settings.frame_bytes) +
         settings.frame_bytes;
}

}  // namespace

CompressorSettings fit_memory(CompressorSettings settings) {
  settings.threads = std::max(1U, settings.threads);
  const unsigned threads = settings.threads;
  settings.threads = 1;
  const ZSTD_compressionParameters level = ZSTD_getCParams(settings.level, settings.frame_bytes, 0);
  while (memory_estimate(settings) > kCompressorBytes) {
    settings.chain_log = settings.chain_log == 0 ? level.chainLog - 1 : settings.chain_log - 1;
    settings.hash_log = std::min(level.hashLog, settings.chain_log);
    if (settings.chain_log <= kMinTableLog) break;
  }
  while (settings.threads < threads) {
    ++settings.threads;
    if (memory_estimate(settings) > kCompressorBytes) {
      --settings.threads;
      break;
    }
  }
  return settings;
}

struct FrameCompressor::Worker {
  using Context = std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)>;

  explicit Worker(const CompressorSettings& settings)
      : context(ZSTD_createCCtx(), &ZSTD_freeCCtx), fast(nullptr, &ZSTD_freeCCtx) {
    if (!context) return;
    ZSTD_CCtx_setParameter(context.get(), ZSTD_c_compressionLevel, settings.level);
    ZSTD_CCtx_setParameter(context.get(), ZSTD_c_chainLog, static_cast<int>(settings.chain_log));
    ZSTD_CCtx_setParameter(context.get(), ZSTD_c_hashLog, static_cast<int>(settings.hash_log));
    ZSTD_CCtx_setParameter(context.get(), ZSTD_c_checksumFlag, 0);
    ZSTD_CCtx_setParameter(context.get(), ZSTD_c_contentSizeFlag, 1);
  }

  // For what hardly compresses: level 1, but with an eye on whatever repeats at a distance.
  ZSTD_CCtx* fast_context() {
    if (fast) return fast.get();
    fast.reset(ZSTD_createCCtx());
    if (!fast) return nullptr;
    ZSTD_CCtx_setParameter(fast.get(), ZSTD_c_compressionLevel, 1);
    ZSTD_CCtx_setParameter(fast.get(), ZSTD_c_enableLongDistanceMatching, 1);
    ZSTD_CCtx_setParameter(fast.get(), ZSTD_c_windowLog, kWindowLog);
    ZSTD_CCtx_setParameter(fast.get(), ZSTD_c_checksumFlag, 0);
    ZSTD_CCtx_setParameter(fast.get(), ZSTD_c_contentSizeFlag, 1);
    return fast.get();
  }

  Context context;
  Context fast;  // made when it is needed
};

FrameCompressor::FrameCompressor(BlobWriter& blob, const CompressorSettings& settings)
    : blob_(blob), settings_(fit_memory(settings)) {
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
  if (threads_.empty()) start_threads();
  if (threads_.empty()) {
    compress_here();
  } else {
    const std::lock_guard lock(mutex_);
    current().state = State::kFilled;
    ++filled_;
  }
  changed_.notify_all();
  if (filled_ - written_ < slots_.size()) return {};
  return write_oldest();
}

void FrameCompressor::start_threads() {
  try {
    for (unsigned i = 0; i < settings_.threads; ++i) threads_.emplace_back([this] { work(); });
  } catch (const std::system_error&) {
    // A limit on processes: those that there are will do, or else the caller's thread.
  }
}

// Without threads.
void FrameCompressor::compress_here() {
  if (!own_) own_ = std::make_unique<Worker>(settings_);
  compress(current(), *own_);
  current().state = State::kCompressed;
  const std::lock_guard lock(mutex_);
  ++taken_;
  ++filled_;
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
  if (auto written = blob_.write({slot.compressed.get(), slot.compressed_size}); !written)
    return written;
  table_.frames.push_back(
      {static_cast<uint32_t>(slot.compressed_size), static_cast<uint32_t>(slot.plain.size())});
  slot.plain.clear();
  slot.state = State::kFree;
  ++written_;
  return {};
}

Status FrameCompressor::finish() {
  Slot& last = current();
  if (!last.plain.empty()) {
    if (threads_.empty()) {  // one frame in all: not worth a thread
      compress_here();
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
  Worker worker(settings_);
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
  if (slot.problem != nullptr) return;
  // As long as any frame needs, so that it is taken once.
  const size_t room = ZSTD_compressBound(slot.plain.capacity());
  if (!slot.compressed) slot.compressed = std::make_unique_for_overwrite<uint8_t[]>(room);
  const auto with = [&](ZSTD_CCtx* context) {
    return ZSTD_compress2(context, slot.compressed.get(), room, slot.plain.data(),
                          slot.plain.size());
  };
  if (hardly_compresses(slot.plain)) {
    ZSTD_CCtx* fast = worker.fast_context();
    if (fast != nullptr) {
      slot.compressed_size = with(fast);
      if (ZSTD_isError(slot.compressed_size) == 0 &&
          slot.compressed_size >= slot.plain.size() / 100 * kInVainPercent) {
        return;
      }
    }
  }
  slot.compressed_size = with(worker.context.get());
  if (ZSTD_isError(slot.compressed_size) != 0)
    slot.problem = ZSTD_getErrorName(slot.compressed_size);
}

}  // namespace compilecache::archive
