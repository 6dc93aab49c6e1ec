#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "archive/layer/seek_table.hpp"

// Which files make a layer unpack to so much more than it is that no reader takes it
// (Limits::max_ratio). Pure.

namespace compilecache::archive {

// A file's content within the plain bytes of a layer.
struct Placed {
  uint64_t begin = 0, size = 0;
};

// Indices of the files without which a reader takes the rest, the worst first. Of a frame's
// compressed bytes each has as large a part as of its plain ones. `placed` is in the order of the
// layer. Empty: the ratio is kept, or no file is to blame.
std::vector<size_t> beyond_ratio(const std::vector<Frame>& frames,
                                 const std::vector<Placed>& placed, uint64_t max_ratio);

}  // namespace compilecache::archive
