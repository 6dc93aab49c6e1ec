#include "base/free_memory.hpp"

#include <malloc.h>

#include "base/mutex.hpp"

namespace compilecache {

void return_free_memory() {
  // One at a time: where something else allocates (sanitizers), the first call sets up glibc's
  // allocator, and a second one beside it would find that half done.
  static Mutex mutex;
  const MutexLock lock(mutex);
  ::malloc_trim(0);
}

}  // namespace compilecache
