#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

// zstd frames that hold uncompressed bytes (RFC 8878, sections 3.1.1.1 and 3.1.1.2), for content
// that does not compress: zstd itself would search it first, and copy it when it decodes.

namespace compilecache::archive {

// Returns the frame's size: a few bytes more than `plain`. `plain` may overlap `out` if it begins
// at least 9 bytes, and 3 more for each 128 KiB, after it.
size_t store_frame(std::span<const uint8_t> plain, uint8_t* out);

// Returns where the plain bytes are in a frame that store_frame made; none for any other frame, and
// for one that is not whole.
std::optional<std::vector<std::span<const uint8_t>>> stored_bytes(std::span<const uint8_t> frame,
                                                                  size_t plain);

}  // namespace compilecache::archive
