#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace compilecache::archive {

// Estimates to how many percent zstd's fastest level compresses these bytes, from eight evenly
// spread pieces of 8 KiB. Costs a hundredth of compressing them. Returns 0 for less than half a
// MiB, which is always worth compressing. It does not notice repetition over long distances, such
// as in near-equal files that are compressed already.
unsigned sampled_percent(std::span<const uint8_t> bytes);

// Whether much of the bytes repeats over distances longer than these samples. It selects places by
// their content and compares the bytes that follow them. About as fast as memchr.
bool repeats_at_a_distance(std::span<const uint8_t> bytes);

}  // namespace compilecache::archive
