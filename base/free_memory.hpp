#pragma once

#include <cstdint>

namespace compilecache {

// Gives memory that was freed back to the system, where the C library keeps it for itself: after
// work that took much once, such as reading a list of all pods. Takes milliseconds. Thread-safe.
void return_free_memory();

// From now on the C library keeps little of what is freed: large blocks go back at once, and so
// does the end of each thread's memory. By default the amount that it keeps grows with the largest
// block it has seen: tens of megabytes for each thread. For programs that run for months; before
// there are other threads.
void keep_little_free_memory();

// Gives it back when much has gathered, as after a burst of large requests whose memory lies among
// that of what goes on.
//
//   MemoryWatch watch;
//   watch.look();       // every ten seconds
//
// A look takes microseconds where nothing has gathered. Not thread-safe; other threads may
// allocate.
class MemoryWatch {
 public:
  MemoryWatch();
  // Returns whether memory was given back.
  bool look();

 private:
  int64_t unused_;  // resident and not allocated, when it was given back last
};

}  // namespace compilecache
