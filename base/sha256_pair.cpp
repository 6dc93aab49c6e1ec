#include "base/sha256_pair.hpp"

#include <algorithm>

#include "base/sha256_context.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace compilecache {
namespace {

constexpr size_t kBlock = 64;

#if defined(__x86_64__)

// FIPS 180-4, section 4.2.2.
alignas(64) constexpr uint32_t kRound[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

// The state as the instructions want it, and the last sixteen words of the schedule.
struct Lane {
  __m128i abef;
  __m128i cdgh;
  __m128i words[4];
};

#define CC_SHA __attribute__((target("sha,sse4.1,ssse3"), always_inline)) inline

CC_SHA void load_state(Lane& lane, const SHA256_CTX& context) {
  const auto* state = reinterpret_cast<const __m128i*>(context.h);
  const __m128i cdab = _mm_shuffle_epi32(_mm_loadu_si128(state), 0xB1);
  const __m128i efgh = _mm_shuffle_epi32(_mm_loadu_si128(state + 1), 0x1B);
  lane.abef = _mm_alignr_epi8(cdab, efgh, 8);
  lane.cdgh = _mm_blend_epi16(efgh, cdab, 0xF0);
}

CC_SHA void store_state(const Lane& lane, SHA256_CTX& context) {
  const __m128i feba = _mm_shuffle_epi32(lane.abef, 0x1B);
  const __m128i dchg = _mm_shuffle_epi32(lane.cdgh, 0xB1);
  auto* state = reinterpret_cast<__m128i*>(context.h);
  _mm_storeu_si128(state, _mm_blend_epi16(feba, dchg, 0xF0));
  _mm_storeu_si128(state + 1, _mm_alignr_epi8(dchg, feba, 8));
}

CC_SHA void load_words(Lane& lane, const uint8_t* block) {
  const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0bLL, 0x0405060700010203LL);
  for (int i = 0; i < 4; ++i) {
    const auto* words = reinterpret_cast<const __m128i*>(block) + i;
    lane.words[i] = _mm_shuffle_epi8(_mm_loadu_si128(words), big_endian);
  }
}

// Rounds 4 * group to 4 * group + 3, and the words that the group after the next three needs.
template <int group>
CC_SHA void four_rounds(Lane& lane) {
  __m128i& words = lane.words[group % 4];
  const auto* constants = reinterpret_cast<const __m128i*>(kRound) + group;
  const __m128i sum = _mm_add_epi32(words, _mm_load_si128(constants));
  lane.cdgh = _mm_sha256rnds2_epu32(lane.cdgh, lane.abef, sum);
  lane.abef = _mm_sha256rnds2_epu32(lane.abef, lane.cdgh, _mm_shuffle_epi32(sum, 0x0E));
  if constexpr (group < 12) {
    const __m128i& next = lane.words[(group + 1) % 4];
    const __m128i& third = lane.words[(group + 2) % 4];
    const __m128i& last = lane.words[(group + 3) % 4];
    const __m128i before = _mm_sha256msg1_epu32(words, next);
    words = _mm_sha256msg2_epu32(_mm_add_epi32(before, _mm_alignr_epi8(last, third, 4)), last);
  }
}

template <int group = 0>
CC_SHA void all_rounds(Lane& first, Lane& second) {
  four_rounds<group>(first);
  four_rounds<group>(second);
  if constexpr (group < 15) all_rounds<group + 1>(first, second);
}

__attribute__((target("sha,sse4.1,ssse3"))) void do_blocks(SHA256_CTX& first_context,
                                                           const uint8_t* first_bytes,
                                                           SHA256_CTX& second_context,
                                                           const uint8_t* second_bytes,
                                                           size_t blocks) {
  Lane first;
  Lane second;
  load_state(first, first_context);
  load_state(second, second_context);
  for (; blocks > 0; --blocks, first_bytes += kBlock, second_bytes += kBlock) {
    const Lane first_before = first;
    const Lane second_before = second;
    load_words(first, first_bytes);
    load_words(second, second_bytes);
    all_rounds(first, second);
    first.abef = _mm_add_epi32(first.abef, first_before.abef);
    first.cdgh = _mm_add_epi32(first.cdgh, first_before.cdgh);
    second.abef = _mm_add_epi32(second.abef, second_before.abef);
    second.cdgh = _mm_add_epi32(second.cdgh, second_before.cdgh);
  }
  store_state(first, first_context);
  store_state(second, second_context);
}

#undef CC_SHA

bool has_instructions() {
  constexpr unsigned kShaBit = 1U << 29;
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __builtin_cpu_supports("sse4.1") != 0 &&
         __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (ebx & kShaBit) != 0;
}

// How OpenSSL counts, in bits.
void count(SHA256_CTX& context, uint64_t bytes) {
  const uint64_t bits = (uint64_t{context.Nh} << 32 | context.Nl) + (bytes << 3);
  context.Nl = static_cast<SHA_LONG>(bits);
  context.Nh = static_cast<SHA_LONG>(bits >> 32);
}

// What both have, as far as it is whole blocks; returns how many bytes.
size_t do_together(SHA256_CTX& first_context, std::span<const uint8_t> first,
                   SHA256_CTX& second_context, std::span<const uint8_t> second) {
  static const bool kUsable = has_instructions();
  const size_t blocks = std::min(first.size(), second.size()) / kBlock;
  // In the middle of a block OpenSSL holds the block's beginning.
  if (!kUsable || blocks == 0 || first_context.num != 0 || second_context.num != 0) return 0;
  do_blocks(first_context, first.data(), second_context, second.data(), blocks);
  count(first_context, blocks * kBlock);
  count(second_context, blocks * kBlock);
  return blocks * kBlock;
}

#else

size_t do_together(SHA256_CTX&, std::span<const uint8_t>, SHA256_CTX&, std::span<const uint8_t>) {
  return 0;
}

#endif

}  // namespace

void update_pair(Sha256& first, std::span<const uint8_t> first_bytes, Sha256& second,
                 std::span<const uint8_t> second_bytes) {
  const size_t done =
      do_together(first.context_->state, first_bytes, second.context_->state, second_bytes);
  first.update(first_bytes.subspan(done));
  second.update(second_bytes.subspan(done));
}

std::array<Sha256Digest, 2> sha256_pair(std::span<const uint8_t> first,
                                        std::span<const uint8_t> second) {
  Sha256 one;
  Sha256 other;
  update_pair(one, first, other, second);
  return {one.finish(), other.finish()};
}

}  // namespace compilecache
