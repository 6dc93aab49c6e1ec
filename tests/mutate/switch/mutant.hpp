#pragma once

// Which of the changes that tests/mutate/draw compiled in is made: $CC_MUTANT. Only in its copy of
// the tree; the product knows nothing of it. Thread-safe.

#include <atomic>

namespace compilecache::mutant {

// The number that $CC_MUTANT names; 0: the code as it is.
extern const int chosen;
extern std::atomic<bool> reached[];

// Writes the number to the file that $CC_MUTANT_REACHED names at this moment.
void note_reached(int number);

inline bool is_made(int number) {
  if (!reached[number].exchange(true, std::memory_order_relaxed)) note_reached(number);
  return chosen == number;
}

}  // namespace compilecache::mutant

#define CC_MUTANT(number) (::compilecache::mutant::is_made(number))
