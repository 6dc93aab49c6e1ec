#pragma once

// Which lock guards what, in a form that clang checks (-Wthread-safety); nothing for other
// compilers. `tests/run.sh sources` compiles every source file with the check as an error.
//
//   class Counter {
//    public:
//     void add() EXCLUDES(mutex_) {
//       const MutexLock lock(mutex_);
//       add_locked();
//     }
//
//    private:
//     void add_locked() REQUIRES(mutex_) { ++count_; }
//
//     Mutex mutex_;
//     int count_ GUARDED_BY(mutex_) = 0;
//   };
//
// The names are those of clang's documentation, as in Abseil and LevelDB. Constructors and
// destructors are not checked: nobody else has the object then. A lambda is checked as a function
// of its own, so one that runs under a lock declares it: `[this]() REQUIRES(mutex_) { … }`.

#if defined(__clang__)
#define COMPILECACHE_THREAD_ANNOTATION(annotation) __attribute__((annotation))
#else
#define COMPILECACHE_THREAD_ANNOTATION(annotation)
#endif

// A member that is read and written under that lock only; PT_: what the pointer leads to.
#define GUARDED_BY(mutex) COMPILECACHE_THREAD_ANNOTATION(guarded_by(mutex))
#define PT_GUARDED_BY(mutex) COMPILECACHE_THREAD_ANNOTATION(pt_guarded_by(mutex))

// A function that is called with the lock held (shared: for reading), or without it.
#define REQUIRES(...) COMPILECACHE_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define REQUIRES_SHARED(...) COMPILECACHE_THREAD_ANNOTATION(requires_shared_capability(__VA_ARGS__))
#define EXCLUDES(...) COMPILECACHE_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))

// The lock that a function returns.
#define RETURN_CAPABILITY(mutex) COMPILECACHE_THREAD_ANNOTATION(lock_returned(mutex))

// For the locks themselves: base/mutex.hpp.
#define CAPABILITY(name) COMPILECACHE_THREAD_ANNOTATION(capability(name))
#define SCOPED_CAPABILITY COMPILECACHE_THREAD_ANNOTATION(scoped_lockable)
#define ACQUIRE(...) COMPILECACHE_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define ACQUIRE_SHARED(...) COMPILECACHE_THREAD_ANNOTATION(acquire_shared_capability(__VA_ARGS__))
#define RELEASE(...) COMPILECACHE_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
#define RELEASE_SHARED(...) COMPILECACHE_THREAD_ANNOTATION(release_shared_capability(__VA_ARGS__))
#define RELEASE_GENERIC(...) COMPILECACHE_THREAD_ANNOTATION(release_generic_capability(__VA_ARGS__))
#define TRY_ACQUIRE(...) COMPILECACHE_THREAD_ANNOTATION(try_acquire_capability(__VA_ARGS__))

// A function that is right although the check cannot see it; a comment says why it is.
#define NO_THREAD_SAFETY_ANALYSIS COMPILECACHE_THREAD_ANNOTATION(no_thread_safety_analysis)
