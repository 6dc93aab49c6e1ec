#pragma once

#include <string>

// Makes chosen system calls of this program fail: the functions of libc are replaced by ones that
// count and fail at the chosen call. Link failing_calls.cpp into a test program of its own.
//
//   for (unsigned long n = 1;; ++n) {
//     const FailingCalls calls({Fault::kDiskFull, n});
//     ... what is tested ...
//     if (!calls.happened()) break;   // it has fewer than n such calls
//   }
//
// Only one may exist at a time; it counts the calls of all threads.

namespace compilecache::archive::test {

enum class Fault {
  kIoError,      // EIO, any call
  kDiskFull,     // ENOSPC, calls that take space
  kInterrupted,  // EINTR, calls that a signal or a network file system may interrupt
  kShort,        // half of what was asked, reads and writes
  kLate,         // EIO, and yet it is done: rename, unlink, fsync, close on a network file system
  kStale,        // ESTALE, calls on what another client of a network file system replaces
  kNoThread,     // EAGAIN, new threads (a limit on processes)
  kKilled,       // no call returns any more: the process ends here
};
const char* to_string(Fault fault);

class FailingCalls {
 public:
  struct Which {
    Fault fault;
    unsigned long nth;    // of the calls that this fault can hit, from 1
    bool onward = false;  // and all later ones
  };
  explicit FailingCalls(Which which);
  ~FailingCalls();
  FailingCalls(const FailingCalls&) = delete;
  FailingCalls& operator=(const FailingCalls&) = delete;

  [[nodiscard]] bool happened() const;
  // The first that failed: "rename /tmp/a".
  [[nodiscard]] std::string what() const;
};

}  // namespace compilecache::archive::test
