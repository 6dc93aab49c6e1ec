#include "archive/large_bytes.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <new>

namespace compilecache::archive {
namespace {

constexpr size_t kHugePage = 2U << 20;
constexpr uintptr_t kPage = 4096;

}  // namespace

LargeBytes make_large_bytes(size_t size) {
  LargeBytes bytes(static_cast<uint8_t*>(std::malloc(std::max<size_t>(size, 1))));
  if (!bytes) throw std::bad_alloc();
  if (size >= 2 * kHugePage) {
    // Only a wish. Not aligned to it, as that would take more: the ends have small pages.
    const auto begin = reinterpret_cast<uintptr_t>(bytes.get());
    const uintptr_t from = (begin + kPage - 1) / kPage * kPage;
    const uintptr_t to = (begin + size) / kPage * kPage;
    ::madvise(bytes.get() + (from - begin), to - from, MADV_HUGEPAGE);
  }
  return bytes;
}

}  // namespace compilecache::archive
