#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

namespace compilecache::archive {

struct FreeBytes {
  void operator()(uint8_t* bytes) const { std::free(bytes); }
};

// Bytes that are not cleared first, unlike a vector's. Fresh memory costs a page fault for each
// 4 KiB; of what is large the kernel is asked for pages of 2 MiB, where it has such.
using LargeBytes = std::unique_ptr<uint8_t[], FreeBytes>;

// Throws std::bad_alloc.
LargeBytes make_large_bytes(size_t size);

}  // namespace compilecache::archive
