#include "archive/layer/compressibility.hpp"

#include <zstd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <vector>

namespace compilecache::archive {
namespace {

constexpr size_t kPieces = 8;
constexpr size_t kPieceBytes = 8U << 10;
constexpr size_t kWorthItBelow = 512U << 10;

// One place in about 256 * 4 bytes is compared.
constexpr uint8_t kAnchor = 0xA5;
constexpr uint8_t kAnchorMask = 0x03;
// Two pieces of this length are not equal by chance.
constexpr size_t kComparedBytes = 16;
constexpr size_t kRepeatsOneIn = 16;

uint64_t what_follows(const uint8_t* at) {
  std::array<uint64_t, 2> words{};
  std::memcpy(words.data(), at, kComparedBytes);
  return words[0] * 0x9e3779b97f4a7c15 ^ words[1];
}

}  // namespace

unsigned sampled_percent(std::span<const uint8_t> bytes) {
  if (bytes.size() < kWorthItBelow) return 0;
  const std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)> context(ZSTD_createCCtx(),
                                                                     &ZSTD_freeCCtx);
  if (!context) return 0;
  std::array<uint8_t, ZSTD_COMPRESSBOUND(kPieceBytes)> compressed;
  size_t total = 0;
  for (size_t i = 0; i < kPieces; ++i) {
    const auto piece = bytes.subspan(i * (bytes.size() / kPieces), kPieceBytes);
    const size_t size = ZSTD_compressCCtx(context.get(), compressed.data(), compressed.size(),
                                          piece.data(), piece.size(), 1);
    if (ZSTD_isError(size) != 0) return 0;
    total += size;
  }
  return static_cast<unsigned>(total * 100 / (kPieces * kPieceBytes));
}

bool repeats_at_a_distance(std::span<const uint8_t> bytes) {
  std::vector<uint64_t> seen;
  const uint8_t* at = bytes.data();
  const uint8_t* end = at + bytes.size();
  while (at < end) {
    at = static_cast<const uint8_t*>(std::memchr(at, kAnchor, static_cast<size_t>(end - at)));
    if (at == nullptr || static_cast<size_t>(end - at) < 2 + kComparedBytes) break;
    if ((at[1] & kAnchorMask) == 0) seen.push_back(what_follows(at + 2));
    ++at;
  }
  std::sort(seen.begin(), seen.end());
  const auto different = std::unique(seen.begin(), seen.end()) - seen.begin();
  return (seen.size() - static_cast<size_t>(different)) * kRepeatsOneIn > seen.size();
}

}  // namespace compilecache::archive
