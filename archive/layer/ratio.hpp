#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "archive/layer/seek_table.hpp"

// Finds the files because of which a layer exceeds the ratio that readers accept
// (Limits::max_ratio). Pure.

namespace compilecache::archive {

// A file's content within the plain bytes of a layer.
struct Placed {
  uint64_t begin = 0, size = 0;
};

// Returns the indices of files without which a reader accepts the rest, the worst first. A file's
// share of a frame's compressed bytes is taken to be its share of the plain bytes. `placed` is in
// the order of the layer. Empty: the ratio is kept, or no file is to blame.
std::vector<size_t> beyond_ratio(const std::vector<Frame>& frames,
                                 const std::vector<Placed>& placed, uint64_t max_ratio);

}  // namespace compilecache::archive
