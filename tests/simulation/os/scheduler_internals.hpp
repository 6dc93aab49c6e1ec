#pragma once

#include <cstdint>

// What libc.cpp needs of the scheduler beyond its public functions.

namespace compilecache::simulation {

struct Fiber;

constexpr int64_t kNever = -1;

// Stops the current fiber until wake() names `reason` or the time has come. True when woken.
bool block(const void* reason, int64_t wake_at);
// Lets one, or all, of those that wait for `reason` run.
void wake(const void* reason, bool all);
// Perhaps lets another fiber run first.
void preempt();
// The running fiber's number; 1 where nothing is scheduled.
unsigned current_fiber();

using ThreadStart = void* (*)(void*);
uint64_t create_thread(ThreadStart start, void* argument);
// False where there is no such thread.
bool join_thread(uint64_t thread, void** result);
void detach_thread(uint64_t thread);

// Streams of their own, so that who asks for random bytes does not change the schedule.
enum class RandomUse { kSystem, kProduct };
void fill_random(RandomUse use, void* bytes, uint64_t count);

// Reading the clock costs time, or a loop that waits for it would never end.
int64_t read_clock();

}  // namespace compilecache::simulation
