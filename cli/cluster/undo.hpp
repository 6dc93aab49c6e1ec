#pragma once

#include <functional>
#include <list>

namespace compilecache::cli {

// What has to be taken away again, also when somebody presses Ctrl-C.
//
//   undo_at_signals();                                   // at the start of the program
//   const Undo undo([&] { client.remove(jobs, ns, name); });
//
// From then on SIGINT, SIGTERM and SIGHUP run, in a thread of their own, what is to be undone at
// that moment, the newest first, and end the program with 128 and the signal's number; a second one
// ends it at once. Call it once, before any other thread is started. Programs that are started have
// to let signals through again (posix_spawnattr_setsigmask).
void undo_at_signals();

// For as long as it lives: what a signal runs, at most once. It does not run it at its own end.
// Thread-safe; it must not make or end another Undo.
class Undo {
 public:
  explicit Undo(std::function<void()> undo);
  // Waits for ever where a signal is ending the program.
  ~Undo();
  Undo(const Undo&) = delete;
  Undo& operator=(const Undo&) = delete;

 private:
  std::list<std::function<void()>>::iterator place_;
};

}  // namespace compilecache::cli
