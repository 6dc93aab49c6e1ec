#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace compilecache::archive {

struct FreeBytes {
  size_t mapped = 0;  // 0: it is the allocator's
  void operator()(uint8_t* bytes) const;
};

// Bytes that are not cleared first, unlike a vector's. Fresh memory costs a page fault for each
// 4 KiB; of what is large the kernel is asked for pages of 2 MiB, where it has such.
//
// What is large comes from the kernel and goes back to it at once. The allocator would keep what is
// freed between two others, and how much that is depends on which thread was faster.
using LargeBytes = std::unique_ptr<uint8_t[], FreeBytes>;

// Throws std::bad_alloc.
LargeBytes make_large_bytes(size_t size);

}  // namespace compilecache::archive
