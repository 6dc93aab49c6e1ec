#include "archive/layer/frame_packer.hpp"

// For the estimate of a context's memory, and for an allocator of our own.
#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <vector>

#include "archive/layer/compressibility.hpp"
#include "archive/layer/stored_frame.hpp"

namespace compilecache::archive {
namespace {

constexpr unsigned kMinTableLog = 17;
// Plain bytes of each frame if one large frame would gain little.
constexpr size_t kPieceBytes = 4U << 20;
// Compressed size of the samples in percent: from the first value on a frame is cut into pieces,
// and a piece is stored from the second on.
constexpr unsigned kPiecesPercent = 50;
constexpr unsigned kStorePercent = 97;

size_t room_for(size_t frame_bytes) {
  return std::max(frame_bytes / 2, ZSTD_compressBound(std::min(frame_bytes, kPieceBytes)));
}

int window_log(size_t frame_bytes) { return static_cast<int>(std::bit_width(frame_bytes - 1)); }

size_t memory_estimate(const CompressorSettings& settings) {
  ZSTD_compressionParameters parameters = ZSTD_getCParams(settings.level, settings.frame_bytes, 0);
  if (settings.chain_log != 0) parameters.chainLog = settings.chain_log;
  if (settings.hash_log != 0) parameters.hashLog = settings.hash_log;
  const size_t context = ZSTD_estimateCCtxSize_usingCParams(parameters);
  return settings.threads * (context + room_for(settings.frame_bytes) + settings.frame_bytes) +
         settings.frame_bytes;
}

tl::unexpected<Error> zstd_failed(const char* why) {
  return fail(ErrorCode::kInternal, std::string("compressing a frame: ") + why);
}

}  // namespace

CompressorSettings fit_memory(CompressorSettings settings) {
  settings.threads = std::max(1U, settings.threads);
  const unsigned threads = settings.threads;
  settings.threads = 1;
  const ZSTD_compressionParameters level = ZSTD_getCParams(settings.level, settings.frame_bytes, 0);
  while (memory_estimate(settings) > settings.memory_bytes) {
    settings.chain_log = settings.chain_log == 0 ? level.chainLog - 1 : settings.chain_log - 1;
    settings.hash_log = std::min(level.hashLog, settings.chain_log);
    if (settings.chain_log <= kMinTableLog) break;
  }
  while (settings.threads < threads) {
    ++settings.threads;
    if (memory_estimate(settings) > settings.memory_bytes) {
      --settings.threads;
      break;
    }
  }
  return settings;
}

struct FramePacker::Context {
  // The memory of a context: two or three blocks.
  using Blocks = std::vector<LargeBytes>;

  static void* take(void* blocks, size_t size) {
    try {
      return static_cast<Blocks*>(blocks)->emplace_back(make_large_bytes(size)).get();
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
  }
  static void give_back(void* blocks, void* bytes) {
    std::erase_if(*static_cast<Blocks*>(blocks),
                  [&](const LargeBytes& block) { return block.get() == bytes; });
  }

  Blocks blocks;
  std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)> zstd{
      ZSTD_createCCtx_advanced({&take, &give_back, &blocks}), &ZSTD_freeCCtx};
};

FramePacker::FramePacker(const CompressorSettings& settings)
    : settings_(settings), context_(std::make_unique<Context>()) {
  ZSTD_CCtx* zstd = context_->zstd.get();
  if (zstd == nullptr) return;
  ZSTD_CCtx_setParameter(zstd, ZSTD_c_compressionLevel, settings.level);
  // The window of levels below 17 is smaller than a frame.
  ZSTD_CCtx_setParameter(zstd, ZSTD_c_windowLog, window_log(settings.frame_bytes));
  ZSTD_CCtx_setParameter(zstd, ZSTD_c_chainLog, static_cast<int>(settings.chain_log));
  ZSTD_CCtx_setParameter(zstd, ZSTD_c_hashLog, static_cast<int>(settings.hash_log));
  ZSTD_CCtx_setParameter(zstd, ZSTD_c_checksumFlag, 0);
  ZSTD_CCtx_setParameter(zstd, ZSTD_c_contentSizeFlag, 1);
}

FramePacker::~FramePacker() = default;

Result<std::vector<Frame>> FramePacker::pack(std::span<uint8_t> buffer) {
  if (!context_->zstd) return zstd_failed("out of memory");
  if (!room_) room_ = make_large_bytes(room_for(settings_.frame_bytes));
  const auto plain = buffer.subspan(kGap);
  const bool whole = sampled_percent(plain) < kPiecesPercent || repeats_at_a_distance(plain);
  return whole ? pack_whole(buffer) : pack_pieces(buffer);
}

Result<std::vector<Frame>> FramePacker::pack_whole(std::span<uint8_t> buffer) {
  const auto plain = buffer.subspan(kGap);
  const size_t size = ZSTD_compress2(context_->zstd.get(), room_.get(),
                                     room_for(settings_.frame_bytes), plain.data(), plain.size());
  if (ZSTD_getErrorCode(size) == ZSTD_error_dstSize_tooSmall) return pack_pieces(buffer);
  if (ZSTD_isError(size) != 0) return zstd_failed(ZSTD_getErrorName(size));
  std::memcpy(buffer.data(), room_.get(), size);
  return std::vector<Frame>{{static_cast<uint32_t>(size), static_cast<uint32_t>(plain.size())}};
}

Result<std::vector<Frame>> FramePacker::pack_pieces(std::span<uint8_t> buffer) {
  std::vector<Frame> frames;
  uint8_t* out = buffer.data();
  for (auto plain = buffer.subspan(kGap); !plain.empty();) {
    const auto piece = plain.first(std::min(plain.size(), kPieceBytes));
    const auto size = pack_piece(piece, out);
    if (!size) return unexpected(size.error());
    frames.push_back({static_cast<uint32_t>(*size), static_cast<uint32_t>(piece.size())});
    out += *size;
    plain = plain.subspan(piece.size());
  }
  return frames;
}

Result<size_t> FramePacker::pack_piece(std::span<const uint8_t> piece, uint8_t* out) {
  if (sampled_percent(piece) >= kStorePercent) return store_frame(piece, out);
  const size_t size = ZSTD_compress2(context_->zstd.get(), room_.get(),
                                     room_for(settings_.frame_bytes), piece.data(), piece.size());
  if (ZSTD_isError(size) != 0) return zstd_failed(ZSTD_getErrorName(size));
  if (size >= piece.size()) return store_frame(piece, out);
  std::memcpy(out, room_.get(), size);
  return size;
}

}  // namespace compilecache::archive
