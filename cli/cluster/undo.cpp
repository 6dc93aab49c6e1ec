#include "cli/cluster/undo.hpp"

#include <signal.h>
#include <unistd.h>

#include <thread>
#include <utility>

#include "base/mutex.hpp"

namespace compilecache::cli {
namespace {

constexpr int kBySignal = 128;  // as shells report it

struct Undos {
  Mutex mutex;
  std::list<std::function<void()>> list GUARDED_BY(mutex);
};
// Never destroyed: the thread that waits for signals outlives main().
Undos& undos() {
  static auto* const all = new Undos;
  return *all;
}

// The lock is kept, so that nobody goes on with what is being taken away. A second signal ends the
// program at once.
[[noreturn]] void end_by(int signal, const sigset_t& set) {
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  undos().mutex.lock();
  for (auto undo = undos().list.rbegin(); undo != undos().list.rend(); ++undo) (*undo)();
  ::_exit(kBySignal + signal);
}

}  // namespace

void undo_at_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, signal);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::thread([set] {
    int signal = 0;
    while (sigwait(&set, &signal) != 0) {
    }
    end_by(signal, set);
  }).detach();
}

Undo::Undo(std::function<void()> undo) {
  const MutexLock lock(undos().mutex);
  place_ = undos().list.insert(undos().list.end(), std::move(undo));
}

Undo::~Undo() {
  const MutexLock lock(undos().mutex);
  undos().list.erase(place_);
}

}  // namespace compilecache::cli
