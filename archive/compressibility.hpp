#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace compilecache::archive {

// Whether compressing this frame would be in vain: eight pieces of it, spread evenly, are
// compressed at zstd's fastest level, and hardly become smaller. Costs a hundredth of compressing
// the frame; the same bytes always give the same answer.
//
// It cannot see what repeats at a distance, as near-equal files that are compressed already do.
// Frames of less than half a MiB are always worth it.
bool hardly_compresses(std::span<const uint8_t> frame);

}  // namespace compilecache::archive
