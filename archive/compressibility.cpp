#include "archive/compressibility.hpp"

#include <zstd.h>

#include <array>
#include <memory>

namespace compilecache::archive {
namespace {

constexpr size_t kPieces = 8;
constexpr size_t kPieceBytes = 8U << 10;
constexpr size_t kWorthItBelow = 512U << 10;
// Of what the pieces have; less than that is not worth ten times the work.
constexpr size_t kHardlyPercent = 97;

}  // namespace

bool hardly_compresses(std::span<const uint8_t> frame) {
  if (frame.size() < kWorthItBelow) return false;
  const std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)> context(ZSTD_createCCtx(),
                                                                     &ZSTD_freeCCtx);
  if (!context) return false;
  std::array<uint8_t, ZSTD_COMPRESSBOUND(kPieceBytes)> compressed;
  size_t total = 0;
  for (size_t i = 0; i < kPieces; ++i) {
    const auto piece = frame.subspan(i * (frame.size() / kPieces), kPieceBytes);
    const size_t size = ZSTD_compressCCtx(context.get(), compressed.data(), compressed.size(),
                                          piece.data(), piece.size(), 1);
    if (ZSTD_isError(size) != 0) return false;
    total += size;
  }
  return total * 100 >= kPieces * kPieceBytes * kHardlyPercent;
}

}  // namespace compilecache::archive
