#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include "base/thread_annotations.hpp"

// The standard library's locks with the annotations that clang checks (see
// base/thread_annotations.hpp); they cost nothing and behave as those do.
//
//   Mutex mutex_;
//   CondVar changed_;
//   bool done_ GUARDED_BY(mutex_) = false;
//
//   void finish() {
//     const MutexLock lock(mutex_);
//     done_ = true;
//     changed_.notify_all();
//   }
//   bool wait(std::chrono::seconds patience) {
//     const MutexLock lock(mutex_);
//     return changed_.wait_for(mutex_, patience, [this]() REQUIRES(mutex_) { return done_; });
//   }

namespace compilecache {

// std::mutex. Held through MutexLock.
class CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() ACQUIRE() { mutex_.lock(); }
  void unlock() RELEASE() { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

// Holds a Mutex until its scope ends, or between lock() and unlock() of its own.
class SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() RELEASE() {
    if (held_) mutex_.unlock();
  }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  // Gives the lock back for a while.
  void unlock() RELEASE() {
    held_ = false;
    mutex_.unlock();
  }
  void lock() ACQUIRE() {
    mutex_.lock();
    held_ = true;
  }

 private:
  Mutex& mutex_;
  bool held_ = true;
};

// std::shared_mutex: one writer or many readers. Held through WriterLock and ReaderLock.
class CAPABILITY("shared mutex") SharedMutex {
 public:
  SharedMutex() = default;
  SharedMutex(const SharedMutex&) = delete;
  SharedMutex& operator=(const SharedMutex&) = delete;

  void lock() ACQUIRE() { mutex_.lock(); }
  void unlock() RELEASE() { mutex_.unlock(); }
  void lock_shared() ACQUIRE_SHARED() { mutex_.lock_shared(); }
  void unlock_shared() RELEASE_SHARED() { mutex_.unlock_shared(); }

 private:
  std::shared_mutex mutex_;
};

class SCOPED_CAPABILITY WriterLock {
 public:
  explicit WriterLock(SharedMutex& mutex) ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~WriterLock() RELEASE() { mutex_.unlock(); }
  WriterLock(const WriterLock&) = delete;
  WriterLock& operator=(const WriterLock&) = delete;

 private:
  SharedMutex& mutex_;
};

class SCOPED_CAPABILITY ReaderLock {
 public:
  explicit ReaderLock(SharedMutex& mutex) ACQUIRE_SHARED(mutex) : mutex_(mutex) {
    mutex_.lock_shared();
  }
  ~ReaderLock() RELEASE_GENERIC() { mutex_.unlock_shared(); }
  ReaderLock(const ReaderLock&) = delete;
  ReaderLock& operator=(const ReaderLock&) = delete;

 private:
  SharedMutex& mutex_;
};

// std::condition_variable of a Mutex, which the waiting thread holds before and after. Waiting
// without a predicate may end for no reason.
class CondVar {
 public:
  void notify_one() noexcept { changed_.notify_one(); }
  void notify_all() noexcept { changed_.notify_all(); }

  void wait(Mutex& mutex) REQUIRES(mutex) {
    Held held(mutex.mutex_);
    changed_.wait(held.lock);
  }

  template <typename Rep, typename Period>
  void wait_for(Mutex& mutex, const std::chrono::duration<Rep, Period>& longest) REQUIRES(mutex) {
    Held held(mutex.mutex_);
    changed_.wait_for(held.lock, longest);
  }

  template <typename Clock, typename Length>
  void wait_until(Mutex& mutex, const std::chrono::time_point<Clock, Length>& latest)
      REQUIRES(mutex) {
    Held held(mutex.mutex_);
    changed_.wait_until(held.lock, latest);
  }

  // Until the predicate, which runs with the lock held, is true. It says REQUIRES(mutex) of the
  // mutex as its own scope names it, which the check cannot know to be the same one: so it looks
  // away here.
  template <typename Predicate>
  void wait(Mutex& mutex, Predicate predicate) REQUIRES(mutex) NO_THREAD_SAFETY_ANALYSIS {
    Held held(mutex.mutex_);
    changed_.wait(held.lock, std::move(predicate));
  }

  // Returns the predicate's last value.
  template <typename Rep, typename Period, typename Predicate>
  bool wait_for(Mutex& mutex, const std::chrono::duration<Rep, Period>& longest,
                Predicate predicate) REQUIRES(mutex) NO_THREAD_SAFETY_ANALYSIS {
    Held held(mutex.mutex_);
    return changed_.wait_for(held.lock, longest, std::move(predicate));
  }

  template <typename Clock, typename Length, typename Predicate>
  bool wait_until(Mutex& mutex, const std::chrono::time_point<Clock, Length>& latest,
                  Predicate predicate) REQUIRES(mutex) NO_THREAD_SAFETY_ANALYSIS {
    Held held(mutex.mutex_);
    return changed_.wait_until(held.lock, latest, std::move(predicate));
  }

 private:
  // What std::condition_variable wants to see; gives nothing back when it goes, since the caller
  // goes on holding the lock.
  struct Held {
    explicit Held(std::mutex& mutex) : lock(mutex, std::adopt_lock) {}
    ~Held() { lock.release(); }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    std::unique_lock<std::mutex> lock;
  };

  std::condition_variable changed_;
};

}  // namespace compilecache
