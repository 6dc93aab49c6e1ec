#!/usr/bin/env bash
# That clang notices what base/mutex.hpp and base/thread_annotations.hpp promise: each piece of code that takes no lock, or the
# wrong one, is refused, and the same with the lock is not.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

failed=0

# compiles CODE: as the body of a member function of a class with two locks.
compiles() {
  clang++-14 -std=c++20 -I. -Wthread-safety -Werror=thread-safety -fsyntax-only -x c++ - <<END 2>&1
#include "base/mutex.hpp"
using namespace compilecache;
struct Counter {
  void add_locked() REQUIRES(mutex) { ++count; }
  void call() { $1 }
  Mutex mutex;
  Mutex other;
  SharedMutex shared;
  CondVar changed;
  int count GUARDED_BY(mutex) = 0;
  int seen GUARDED_BY(shared) = 0;
};
END
}

accepted() { local said; said=$(compiles "$1") || { printf 'refused: %s\n%s\n' "$1" "$said" >&2; failed=1; }; }
refused() {
  local said
  if said=$(compiles "$1"); then echo "not noticed: $1" >&2; failed=1; return; fi
  [[ $said == *-Wthread-safety-analysis* ]] || { printf 'refused for another reason: %s\n%s\n' "$1" "$said" >&2; failed=1; }
}

accepted 'const MutexLock lock(mutex); ++count; add_locked();'
refused '++count;'
refused 'add_locked();'
refused 'const MutexLock lock(other); ++count;'
refused '{ const MutexLock lock(mutex); } ++count;'
refused 'MutexLock lock(mutex); lock.unlock(); ++count;'
accepted 'MutexLock lock(mutex); lock.unlock(); lock.lock(); ++count;'
refused 'const MutexLock lock(mutex); const MutexLock again(mutex);'
accepted 'const MutexLock lock(mutex); changed.wait(mutex, [this]() REQUIRES(mutex) { return count > 0; });'
refused 'const MutexLock lock(mutex); changed.wait(mutex, [this] { return count > 0; });'
refused 'changed.wait(mutex, [this]() REQUIRES(mutex) { return count > 0; });'
refused 'changed.wait(mutex);'
refused 'const MutexLock lock(other); changed.wait_for(mutex, std::chrono::seconds(1));'
accepted 'const ReaderLock lock(shared); (void)seen;'
refused 'const ReaderLock lock(shared); ++seen;'
accepted 'const WriterLock lock(shared); ++seen;'

[ $failed -eq 0 ] || exit 1
echo "clang notices a lock that is not held"
