#pragma once

namespace compilecache {

// Gives memory that was freed back to the system, where the C library keeps it for itself: after
// work that took much once, such as reading a list of all pods. Takes milliseconds. Thread-safe.
void return_free_memory();

}  // namespace compilecache
