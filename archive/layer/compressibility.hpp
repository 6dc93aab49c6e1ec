#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace compilecache::archive {

// How much of these bytes zstd's fastest level leaves, in percent, as eight pieces of 8 KiB, spread
// evenly, say. Costs a hundredth of compressing them; 0 for less than half a MiB, which is always
// worth compressing. It cannot see what repeats at a distance, as near-equal files that are
// compressed already do.
unsigned sampled_percent(std::span<const uint8_t> bytes);

// Whether much of it repeats further apart than the samples are long: places chosen by their
// content are compared by what follows them. About as fast as memchr.
bool repeats_at_a_distance(std::span<const uint8_t> bytes);

}  // namespace compilecache::archive
