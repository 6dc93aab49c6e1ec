// The C library's functions for threads, locks, clocks, sleeps and randomness, answered by the
// scheduler. The dynamic linker gives these definitions, which are the executable's, to every
// library too (libstdc++, OpenSSL, Boost). Before the run begins they are the system's, or fit for
// one thread. The layouts of pthread_mutex_t and pthread_rwlock_t are this file's own while the
// program runs, but an all-zero one is unlocked and `kind` lies where glibc's initialisers put it.

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <limits>

#include "tests/simulation/os/scheduler.hpp"
#include "tests/simulation/os/scheduler_internals.hpp"

namespace sim = compilecache::simulation;

extern "C" const char __executable_start, etext;

namespace {

using compilecache::simulation::kSecond;
// The monotonic clock is not 0 at the start, as on no machine.
constexpr int64_t kBoot = kSecond;
constexpr int64_t kForever = std::numeric_limits<int64_t>::max() / 4;

struct Mutex {
  unsigned owner;  // a fiber's number; 0: unlocked
  unsigned count;
  int unused;
  unsigned users;
  int kind;
};
static_assert(sizeof(Mutex) <= sizeof(pthread_mutex_t));

struct ReadWriteLock {
  int readers;
  int writer;
};
static_assert(sizeof(ReadWriteLock) <= sizeof(pthread_rwlock_t));

// OpenSSL takes tens of thousands of locks for one certificate: only those that the executable's
// own code takes are points where another thread may run.
bool is_executable(const void* caller) { return caller >= &__executable_start && caller < &etext; }

void perhaps_preempt(const void* caller) {
  if (is_executable(caller)) sim::preempt();
}

bool is_recursive(const Mutex& mutex) { return (mutex.kind & 3) == PTHREAD_MUTEX_RECURSIVE; }

int64_t nanoseconds(const timespec& time) {
  if (time.tv_sec > kForever / kSecond) return kForever;
  return time.tv_sec * kSecond + time.tv_nsec;
}

timespec as_timespec(int64_t time) { return {time / kSecond, time % kSecond}; }

int64_t origin_of(clockid_t clock) {
  return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE
             ? -(sim::wall_ns() - sim::now_ns())
             : -kBoot;
}

int wait_until(pthread_cond_t* condition, pthread_mutex_t* mutex, int64_t until) {
  ::pthread_mutex_unlock(mutex);
  bool woken = false;
  if (until <= sim::now_ns()) {
    sim::yield();
  } else {
    woken = sim::block(condition, until);
  }
  ::pthread_mutex_lock(mutex);
  return woken || sim::now_ns() < until ? 0 : ETIMEDOUT;
}

using CreateFunction = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);

CreateFunction system_create() {
  static const auto found = reinterpret_cast<CreateFunction>(::dlsym(RTLD_NEXT, "pthread_create"));
  return found;
}

}  // namespace

extern "C" {

// --- locks -------------------------------------------------------------------------------------

int pthread_mutex_lock(pthread_mutex_t* given) noexcept {
  auto& mutex = *reinterpret_cast<Mutex*>(given);
  const unsigned self = sim::current_fiber();
  if (mutex.owner == self && is_recursive(mutex)) {
    ++mutex.count;
    return 0;
  }
  if (sim::is_scheduled()) {
    if (mutex.owner == self) {
      std::fprintf(stderr, "simulation: %s locks a mutex that it holds\n",
                   sim::current_name().c_str());
      ::abort();
    }
    perhaps_preempt(__builtin_return_address(0));
    while (mutex.owner != 0) sim::block(given, sim::kNever);
  }
  mutex.owner = self;
  mutex.count = 1;
  return 0;
}

int pthread_mutex_trylock(pthread_mutex_t* given) noexcept {
  auto& mutex = *reinterpret_cast<Mutex*>(given);
  const unsigned self = sim::current_fiber();
  if (mutex.owner != 0 && !(mutex.owner == self && is_recursive(mutex))) return EBUSY;
  mutex.owner = self;
  ++mutex.count;
  return 0;
}

int pthread_mutex_unlock(pthread_mutex_t* given) noexcept {
  auto& mutex = *reinterpret_cast<Mutex*>(given);
  if (mutex.count > 1) {
    --mutex.count;
    return 0;
  }
  mutex.owner = 0;
  mutex.count = 0;
  if (sim::is_scheduled()) sim::wake(given, false);
  return 0;
}

int pthread_rwlock_rdlock(pthread_rwlock_t* given) noexcept {
  auto& lock = *reinterpret_cast<ReadWriteLock*>(given);
  if (sim::is_scheduled()) {
    perhaps_preempt(__builtin_return_address(0));
    while (lock.writer != 0) sim::block(given, sim::kNever);
  }
  ++lock.readers;
  return 0;
}

int pthread_rwlock_wrlock(pthread_rwlock_t* given) noexcept {
  auto& lock = *reinterpret_cast<ReadWriteLock*>(given);
  if (sim::is_scheduled()) {
    perhaps_preempt(__builtin_return_address(0));
    while (lock.writer != 0 || lock.readers != 0) sim::block(given, sim::kNever);
  }
  lock.writer = 1;
  return 0;
}

int pthread_rwlock_unlock(pthread_rwlock_t* given) noexcept {
  auto& lock = *reinterpret_cast<ReadWriteLock*>(given);
  if (lock.writer != 0) {
    lock.writer = 0;
  } else {
    --lock.readers;
  }
  if (sim::is_scheduled()) sim::wake(given, true);
  return 0;
}

int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  ::pthread_mutex_unlock(mutex);
  sim::block(condition, sim::kNever);
  ::pthread_mutex_lock(mutex);
  return 0;
}

int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const timespec* time) {
  return wait_until(condition, mutex, nanoseconds(*time) + origin_of(clock));
}

int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                           const timespec* time) {
  return pthread_cond_clockwait(condition, mutex, CLOCK_REALTIME, time);
}

int pthread_cond_signal(pthread_cond_t* condition) noexcept {
  if (sim::is_scheduled()) sim::wake(condition, false);
  return 0;
}

int pthread_cond_broadcast(pthread_cond_t* condition) noexcept {
  if (sim::is_scheduled()) sim::wake(condition, true);
  return 0;
}

// --- threads -----------------------------------------------------------------------------------

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                   void* argument) noexcept {
  if (!sim::is_scheduled()) return system_create()(thread, attributes, start, argument);
  *thread = static_cast<pthread_t>(sim::create_thread(start, argument));
  return 0;
}

int pthread_join(pthread_t thread, void** result) {
  return sim::join_thread(thread, result) ? 0 : ESRCH;
}

int pthread_detach(pthread_t thread) noexcept {
  if (sim::is_scheduled()) sim::detach_thread(thread);
  return 0;
}

pthread_t pthread_self() noexcept { return sim::current_fiber(); }

int sched_yield() noexcept {
  if (sim::is_scheduled()) sim::yield();
  return 0;
}

// A simulated process ends alone.
void _exit(int status) {
  if (sim::current_process() != sim::kWorld) sim::kill_process(sim::current_process());
  ::syscall(SYS_exit_group, status);
  __builtin_unreachable();
}

void _Exit(int status) noexcept { ::_exit(status); }

// --- time --------------------------------------------------------------------------------------

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  if (!sim::is_scheduled()) return static_cast<int>(::syscall(SYS_clock_gettime, clock, time));
  const int64_t now = sim::read_clock();
  const bool of_processor = clock == CLOCK_PROCESS_CPUTIME_ID || clock == CLOCK_THREAD_CPUTIME_ID;
  *time = as_timespec(of_processor ? now / 100 : now - origin_of(clock));
  return 0;
}

time_t time(time_t* given) noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  if (given != nullptr) *given = now.tv_sec;
  return now.tv_sec;
}

int gettimeofday(timeval* given, void* /*zone*/) noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  *given = {now.tv_sec, now.tv_nsec / 1000};
  return 0;
}

int nanosleep(const timespec* time, timespec* rest) {
  if (!sim::is_scheduled()) return static_cast<int>(::syscall(SYS_nanosleep, time, rest));
  sim::sleep_for_ns(nanoseconds(*time));
  return 0;
}

int clock_nanosleep(clockid_t clock, int flags, const timespec* time, timespec* /*rest*/) {
  int64_t duration = nanoseconds(*time);
  if ((flags & TIMER_ABSTIME) != 0) duration += origin_of(clock) - sim::now_ns();
  sim::sleep_for_ns(duration);
  return 0;
}

int poll(pollfd* descriptors, nfds_t count, int timeout) {
  const timespec at_once{0, 0};
  const auto look = [&] {
    return static_cast<int>(::syscall(SYS_ppoll, descriptors, count, &at_once, nullptr, 0));
  };
  const int ready = look();
  if (!sim::is_scheduled() || ready != 0 || timeout == 0) return ready;
  sim::sleep_for_ns(timeout < 0 ? kForever : timeout * (kSecond / 1000));
  return look();
}

// No signal comes: processes end by kill_process().
int sigwait(const sigset_t* /*signals*/, int* signal) {
  static char never;
  while (true) sim::block(&never, sim::now_ns() + kForever);
  *signal = SIGTERM;
  return 0;
}

// --- randomness --------------------------------------------------------------------------------

ssize_t getrandom(void* bytes, size_t count, unsigned int flags) {
  if (!sim::is_scheduled()) return ::syscall(SYS_getrandom, bytes, count, flags);
  sim::fill_random(sim::RandomUse::kSystem, bytes, count);
  return static_cast<ssize_t>(count);
}

int getentropy(void* bytes, size_t count) {
  return ::getrandom(bytes, count, 0) == static_cast<ssize_t>(count) ? 0 : -1;
}

int RAND_bytes(unsigned char* bytes, int count) {
  if (!sim::is_scheduled()) return ::getentropy(bytes, static_cast<size_t>(count)) == 0 ? 1 : 0;
  sim::fill_random(sim::RandomUse::kProduct, bytes, static_cast<uint64_t>(count));
  return 1;
}

}  // extern "C"
