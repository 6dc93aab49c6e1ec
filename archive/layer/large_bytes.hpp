#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace compilecache::archive {

struct FreeBytes {
  size_t mapped = 0;  // 0: the memory is the allocator's
  void operator()(uint8_t* bytes) const;
};

// Bytes that are not cleared first, unlike those of a vector. Fresh memory costs a page fault for
// each 4 KiB; for large buffers we request pages of 2 MiB from the kernel.
//
// Large buffers are mapped from the kernel and unmapped as soon as they are freed. The allocator
// would keep freed memory that lies between other allocations; how much depends on which thread was
// faster.
using LargeBytes = std::unique_ptr<uint8_t[], FreeBytes>;

// Throws std::bad_alloc.
LargeBytes make_large_bytes(size_t size);

}  // namespace compilecache::archive
