#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

// A deterministic operating system inside one process. Every thread of the program is a fiber that
// this scheduler runs, one at a time, in an order that a seed decides, under a clock that moves
// only when no fiber can run. `libc.cpp` answers the C library's locks, threads, clocks, sleeps and
// randomness from here, so the product's code runs unchanged and without being recompiled.
//
//   run_scheduled({.seed = 7}, [] {
//     const ProcessId pod = start_process("pod", [] { std::this_thread::sleep_for(1h); });
//     std::this_thread::sleep_for(1min);      // simulated: takes no time
//     kill_process(pod);                      // as SIGKILL: nothing of it runs again
//   });
//
// The same seed gives the same history, to the last switch (`statistics().history`). One real
// thread runs everything, so nothing here needs a lock. Not for sanitizers, which have thread
// functions of their own.

namespace compilecache::simulation {

struct ScheduleOptions {
  uint64_t seed = 1;
  // One in so many uncontended locks lets another fiber run first; 0: none does.
  uint64_t preempt_one_in = 16;
};

// Runs `body` as the first fiber, on the calling thread. At most one run in the life of a program:
// threads that outlive `body` stay where they are.
void run_scheduled(const ScheduleOptions& options, const std::function<void()>& body);
// False before and outside of run_scheduled().
bool is_scheduled();

constexpr int64_t kMillisecond = 1'000'000;
constexpr int64_t kSecond = 1'000 * kMillisecond;
constexpr int64_t kHour = 3'600 * kSecond;
constexpr int64_t kDay = 24 * kHour;

// Nanoseconds since the run began, and the same as time of day (it begins in January 2027), as the
// calling process sees that.
int64_t now_ns();
int64_t wall_ns();
void sleep_for_ns(int64_t duration);
// Lets every other fiber run first, in any order.
void yield();

// --- processes ---------------------------------------------------------------------------------

// Threads belong to the process whose thread created them. The first fiber's is kWorld, which
// cannot be killed.
using ProcessId = int;
constexpr ProcessId kWorld = 0;

ProcessId start_process(const std::string& name, std::function<void()> body);
// Another thread of a process that is alive, detached.
void start_thread(ProcessId process, const std::string& name, std::function<void()> body);
ProcessId current_process();
bool is_alive(ProcessId process);
// None of its threads runs again; what they had allocated stays. A thread inside a Syscall ends
// when that does. Killing the calling process does not return.
void kill_process(ProcessId process);
// As SIGSTOP and SIGCONT: none of its threads runs in between. A thread inside a Syscall stops when
// that has ended. Not for the calling process.
void freeze_process(ProcessId process);
void thaw_process(ProcessId process);
// How far the time of day that this process sees is ahead of the run's.
void set_clock_offset(ProcessId process, int64_t offset);
// Waits until all its threads have ended or it was killed; false where that is not so at `until`,
// in nanoseconds of the run.
bool wait_for_process(ProcessId process, int64_t until = INT64_MAX);

// A call into the simulated world (its API server, its registry): carried out to its end although
// the caller is killed meanwhile, as a server would.
class Syscall {
 public:
  Syscall();
  ~Syscall();
  Syscall(const Syscall&) = delete;
  Syscall& operator=(const Syscall&) = delete;
};

// --- chance ------------------------------------------------------------------------------------

// Numbers for one actor: what another actor draws does not change them. Seeded by the run's seed
// and the actor's name.
class Chance {
 public:
  explicit Chance(std::string_view actor);
  uint64_t next();
  uint64_t below(uint64_t limit);  // 0 for a limit of 0
  bool one_in(uint64_t number);    // never for 0

 private:
  uint64_t state_;
};

// FNV-1a.
uint64_t hash_of(std::string_view text);

// --- what happened -----------------------------------------------------------------------------

struct Statistics {
  uint64_t switches = 0;
  uint64_t threads = 0;  // ever
  size_t live = 0;       // threads now
  uint64_t history = 0;  // a hash over every switch, its time and what was noted
};
Statistics statistics();
// Makes `text` part of the history's hash.
void note(std::string_view text);
// The name of the running thread's process, for reports.
const std::string& current_name();
// What each thread waits for, on standard error.
void print_threads();

}  // namespace compilecache::simulation
