#pragma once

#include <functional>
#include <list>

namespace compilecache::cli {

// Objects that have to be removed again, also after Ctrl-C.
//
//   undo_at_signals();                                   // at the start of the program
//   const Undo undo([&] { client.remove(jobs, ns, name); });
//
// From then on SIGINT, SIGTERM and SIGHUP run, in a thread of their own, the present undo actions,
// the newest first. They end the program with 128 and the signal's number; a second signal
// ends it at once. Call it once, before any other thread is started. Programs that are started have
// to let signals through again (posix_spawnattr_setsigmask).
void undo_at_signals();

// For as long as it lives: what a signal runs, at most once. It does not run it at its own end.
// Thread-safe; it must not make or end another Undo.
class Undo {
 public:
  explicit Undo(std::function<void()> undo);
  // Waits forever where a signal is ending the program.
  ~Undo();
  Undo(const Undo&) = delete;
  Undo& operator=(const Undo&) = delete;

 private:
  std::list<std::function<void()>>::iterator place_;
};

}  // namespace compilecache::cli
