#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

// zstd frames that hold bytes as they are (RFC 8878, sections 3.1.1.1 and 3.1.1.2), for what does
// not compress: zstd itself searches before it stores, and copies when it decodes.

namespace compilecache::archive {

// Returns the frame's size: that of `plain` and a few bytes. `plain` may lie behind `out`,
// overlapping, if there are 9 bytes and 3 for each 128 KiB in between.
size_t store_frame(std::span<const uint8_t> plain, uint8_t* out);

// Where the plain bytes lie in a frame of store_frame's; nothing if it is any other, or is not
// whole.
std::optional<std::vector<std::span<const uint8_t>>> stored_bytes(std::span<const uint8_t> frame,
                                                                  size_t plain);

}  // namespace compilecache::archive
