#pragma once

#include <cstdint>

#include "frameworks/elf.hpp"

namespace compilecache::frameworks {

// Whether a file of `size` bytes is one whole compressed stream, with nothing missing at its end.
// JAX writes its entries in place, reads one that is cut off at every start, and never replaces it.
//
// A zstd frame is followed from block to block by the blocks' headers; a zlib stream is inflated,
// in constant memory. A file of another format is taken for whole, unless it is too short to tell.
// Data after the stream does not matter. Reads no byte twice.
bool stream_whole(const ReadAt& read, uint64_t size);

}  // namespace compilecache::frameworks
