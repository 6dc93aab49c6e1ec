#include "base/free_memory.hpp"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "base/mutex.hpp"

namespace compilecache {
namespace {

// Resident and not allocated: code, stacks, and what the C library keeps.
int64_t unused_memory() {
  int64_t size = 0;
  int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> size >> pages;
  const struct mallinfo2 allocated = ::mallinfo2();
  return pages * ::sysconf(_SC_PAGESIZE) -
         static_cast<int64_t>(allocated.uordblks + allocated.hblkhd);
}

}  // namespace

void return_free_memory() {
  // One at a time: where something else allocates (sanitizers), the first call sets up glibc's
  // allocator, and a second one beside it would find that half done.
  static Mutex mutex;
  const MutexLock lock(mutex);
  ::malloc_trim(0);
}

void keep_little_free_memory() {
  constexpr int kLargeBlock = 256 << 10, kKeptAtTheEnd = 512 << 10;
  ::mallopt(M_MMAP_THRESHOLD, kLargeBlock);
  ::mallopt(M_TRIM_THRESHOLD, kKeptAtTheEnd);
}

MemoryWatch::MemoryWatch() : unused_(unused_memory()) {}

bool MemoryWatch::look() {
  constexpr int64_t kMuch = 8 << 20;
  const int64_t unused = unused_memory();
  if (unused < unused_ + kMuch) {
    unused_ = std::min(unused, unused_);
    return false;
  }
  return_free_memory();
  unused_ = unused_memory();
  return true;
}

}  // namespace compilecache
