#include "archive/layer/large_bytes.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <new>

namespace compilecache::archive {
namespace {

constexpr size_t kLarge = 128U << 10;
constexpr size_t kHugePage = 2U << 20;
constexpr size_t kPage = 4096;

LargeBytes map_bytes(size_t size) {
  const size_t whole = (size + kPage - 1) / kPage * kPage;
  void* memory = ::mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  // A mere hint. The buffer is not aligned to huge pages, as that would take more memory: its ends
  // have small pages.
  if (whole >= 2 * kHugePage) ::madvise(memory, whole, MADV_HUGEPAGE);
  return {static_cast<uint8_t*>(memory), FreeBytes{whole}};
}

}  // namespace

void FreeBytes::operator()(uint8_t* bytes) const {
  if (mapped > 0) {
    ::munmap(bytes, mapped);
  } else {
    std::free(bytes);
  }
}

LargeBytes make_large_bytes(size_t size) {
  if (size >= kLarge) return map_bytes(size);
  LargeBytes bytes(static_cast<uint8_t*>(std::malloc(std::max<size_t>(size, 1))));
  if (!bytes) throw std::bad_alloc();
  return bytes;
}

}  // namespace compilecache::archive
