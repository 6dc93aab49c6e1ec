#!/usr/bin/env bash
# That clang notices what base/mutex.hpp and base/thread_annotations.hpp promise: each piece of code that takes no lock, or the
# wrong one, is refused, and the same with the lock is not. And that the product's sources lock with nothing else: of the standard
# library's locks clang knows nothing.
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

# unnoticed_locks ROOT: the lines of the product that name a lock of the standard library. base/mutex.hpp wraps them; what the
# locks of operator/archives/cache_locks protect is in the API server, not in a member that could be annotated.
unnoticed_locks() {
  (cd "$1" && find . -name '*.[ch]pp' ! -path './tests/*' ! -path './build*' ! -path './.*/*' ! -path ./base/mutex.hpp \
    ! -path './operator/archives/cache_locks.[ch]pp' -exec \
    grep -nHE 'std::((recursive_|timed_|shared_)*mutex|(lock_guard|unique_lock|scoped_lock|shared_lock)|condition_variable)' {} +) || true
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# plant FILE LINE: a source in the tree that is tried.
plant() { mkdir -p "$scratch/$(dirname "$1")" && printf '%s\n' "$2" >"$scratch/$1"; }
expect_locks() {
  local said
  said=$(unnoticed_locks "$scratch" | sort | tr '\n' ' ')
  [[ $said == "$1" ]] || { printf 'locks of the standard library: wanted\n  %s\nbut found\n  %s\n' "$1" "$said" >&2; failed=1; }
}

plant base/mutex.hpp 'std::mutex mutex_;'
plant operator/archives/cache_locks.cpp 'std::unique_lock lock(*mutex);'
plant tests/unit/lower/lower_test.cpp 'std::mutex mutex;'
plant lower/fine.hpp 'Mutex mutex_; CondVar changed_;'
expect_locks ''
plant lower/a.hpp 'std::mutex mutex_;'
plant lower/b.cpp 'const std::lock_guard lock(mutex_);'
plant lower/room/c.cpp 'std::unique_lock<std::mutex> lock(mutex_);'
plant operator/archives/d.hpp 'std::condition_variable changed_;'
expect_locks './lower/a.hpp:1:std::mutex mutex_; ./lower/b.cpp:1:const std::lock_guard lock(mutex_);'\
' ./lower/room/c.cpp:1:std::unique_lock<std::mutex> lock(mutex_); ./operator/archives/d.hpp:1:std::condition_variable changed_; '

found=$(unnoticed_locks .)
[ -z "$found" ] || { printf 'use the locks of base/mutex.hpp:\n%s\n' "$found" >&2; failed=1; }

[ $failed -eq 0 ] || exit 1
echo "clang notices a lock that is not held, and no source has one that it would not notice"
