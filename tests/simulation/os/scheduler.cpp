#include "tests/simulation/os/scheduler.hpp"

#include <cxxabi.h>
#include <errno.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "tests/simulation/os/scheduler_internals.hpp"

namespace compilecache::simulation {

// What the C++ runtime keeps for each thread about exceptions in flight.
struct ExceptionGlobals {
  void* caught = nullptr;
  unsigned int uncaught = 0;
};

struct Fiber {
  int id = 0;
  ProcessId process = kWorld;
  std::string name;
  std::function<void()> body;   // or
  ThreadStart start = nullptr;  // of pthread_create
  void* argument = nullptr;
  void* result = nullptr;
  bool done = false, detached = false, runnable = true;
  const void* waits_for = nullptr;
  bool woken = false;
  int64_t wake_at = kNever;
  int syscalls = 0;     // how many Syscalls it is inside of
  bool doomed = false;  // ends with its last Syscall
  int saved_errno = 0;
  ExceptionGlobals exceptions;
  ucontext_t context{};
  void* stack = nullptr;
};

namespace {

constexpr size_t kStack = 1U << 20;
constexpr int64_t kEpoch = 1'800'000'000LL * 1'000'000'000LL;  // 15 January 2027
constexpr uint64_t kReadsPerMicrosecond = 1000;

uint64_t mixed(uint64_t value) {  // splitmix64
  value += 0x9E3779B97F4A7C15ULL;
  value = (value ^ (value >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  value = (value ^ (value >> 27U)) * 0x94D049BB133111EBULL;
  return value ^ (value >> 31U);
}

struct Process {
  std::string name;
  size_t threads = 0;
  bool killed = false;
  bool frozen = false;
  std::vector<Fiber*> held;  // that could run if it were not frozen
  int64_t clock_offset = 0;
};

struct Machine {
  ScheduleOptions options;
  uint64_t schedule = 0, system_random = 0, product_random = 0;  // states of streams
  int64_t now = 0;
  uint64_t clock_reads = 0;
  Fiber* current = nullptr;
  std::map<int, std::unique_ptr<Fiber>> fibers;
  std::vector<Fiber*> runnable;  // in the order in which they became so
  std::set<std::pair<int64_t, int>> timers;
  std::map<const void*, std::vector<Fiber*>> waiting;
  std::map<ProcessId, Process> processes;
  std::vector<void*> free_stacks;
  std::vector<int> finished;  // detached fibers that may be freed once another runs
  int next_fiber = 1;
  ProcessId next_process = 1;
  Statistics statistics;
};

Machine* machine = nullptr;

uint64_t draw(uint64_t& state) { return mixed(state++); }

void add_to_history(uint64_t value) {
  machine->statistics.history = (machine->statistics.history ^ value) * 0x100000001b3ULL;
}

ExceptionGlobals& exception_globals() {
  return *reinterpret_cast<ExceptionGlobals*>(abi::__cxa_get_globals());
}

void stop_waiting(Fiber& fiber) {
  if (fiber.wake_at != kNever) {
    machine->timers.erase({fiber.wake_at, fiber.id});
    fiber.wake_at = kNever;
  }
  if (fiber.waits_for == nullptr) return;
  const auto found = machine->waiting.find(fiber.waits_for);
  if (found != machine->waiting.end()) {
    std::erase(found->second, &fiber);
    if (found->second.empty()) machine->waiting.erase(found);
  }
  fiber.waits_for = nullptr;
}

bool is_stopped(const Fiber& fiber) {
  return fiber.syscalls == 0 && machine->processes.at(fiber.process).frozen;
}

void enqueue(Fiber& fiber) {
  auto& queue = is_stopped(fiber) ? machine->processes.at(fiber.process).held : machine->runnable;
  queue.push_back(&fiber);
}

void make_runnable(Fiber& fiber) {
  if (fiber.runnable || fiber.done) return;
  fiber.runnable = true;
  stop_waiting(fiber);
  enqueue(fiber);
}

// Moves the clock to the next timer while nobody can run.
Fiber& take_next() {
  while (machine->runnable.empty()) {
    if (machine->timers.empty()) {
      std::fprintf(stderr, "simulation: every thread waits and no time will wake one\n");
      print_threads();
      ::_exit(3);
    }
    const auto [when, id] = *machine->timers.begin();
    machine->now = std::max(machine->now, when);
    make_runnable(*machine->fibers.at(id));
  }
  const size_t count = machine->runnable.size();
  const size_t at = count == 1 ? 0 : draw(machine->schedule) % count;
  Fiber* next = machine->runnable[at];
  machine->runnable.erase(machine->runnable.begin() + static_cast<std::ptrdiff_t>(at));
  return *next;
}

void count_switch(const Fiber& next) {
  ++machine->statistics.switches;
  add_to_history(static_cast<uint64_t>(next.id) * 31 + static_cast<uint64_t>(machine->now));
}

void free_finished() {
  for (const int id : machine->finished) {
    const auto found = machine->fibers.find(id);
    if (found == machine->fibers.end()) continue;
    if (found->second->stack != nullptr) machine->free_stacks.push_back(found->second->stack);
    machine->fibers.erase(found);
  }
  machine->finished.clear();
}

void switch_to(Fiber& next) {
  Fiber& self = *machine->current;
  count_switch(next);
  if (&next == &self) return;
  self.saved_errno = errno;
  self.exceptions = exception_globals();
  exception_globals() = next.exceptions;
  machine->current = &next;
  ::swapcontext(&self.context, &next.context);
  errno = self.saved_errno;
  free_finished();
}

// Ends the current fiber for good.
[[noreturn]] void leave() {
  Fiber& self = *machine->current;
  self.done = true;
  self.runnable = false;
  Process& process = machine->processes.at(self.process);
  if (--process.threads == 0) wake(&process, true);
  wake(&self, true);
  if (self.detached || process.killed) machine->finished.push_back(self.id);
  Fiber& next = take_next();
  count_switch(next);
  machine->current = &next;
  exception_globals() = next.exceptions;
  ::setcontext(&next.context);
  std::abort();
}

void run_fiber(int id) {
  free_finished();
  Fiber& self = *machine->fibers.at(id);
  if (self.body) {
    self.body();
  } else {
    self.result = self.start(self.argument);
  }
  leave();
}

void prepare_context(Fiber& fiber) {
  if (machine->free_stacks.empty()) {
    fiber.stack = ::mmap(nullptr, kStack, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (fiber.stack == MAP_FAILED) std::abort();
  } else {
    fiber.stack = machine->free_stacks.back();
    machine->free_stacks.pop_back();
  }
  ::getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = fiber.stack;
  fiber.context.uc_stack.ss_size = kStack;
  fiber.context.uc_link = nullptr;
  ::makecontext(&fiber.context, reinterpret_cast<void (*)()>(run_fiber), 1, fiber.id);
}

Fiber& make_fiber(ProcessId process, std::string name) {
  auto made = std::make_unique<Fiber>();
  Fiber& fiber = *made;
  fiber.id = machine->next_fiber++;
  fiber.process = process;
  fiber.name = std::move(name);
  machine->fibers[fiber.id] = std::move(made);
  ++machine->processes.at(process).threads;
  ++machine->statistics.threads;
  return fiber;
}

void start_fiber(ProcessId process, std::string name, std::function<void()> body) {
  Fiber& fiber = make_fiber(process, std::move(name));
  fiber.body = std::move(body);
  fiber.detached = true;
  prepare_context(fiber);
  enqueue(fiber);
}

// Takes a fiber that does not run now out of everything.
void remove(Fiber& fiber) {
  stop_waiting(fiber);
  std::erase(machine->runnable, &fiber);
  std::erase(machine->processes.at(fiber.process).held, &fiber);
  fiber.done = true;
  fiber.runnable = false;
  --machine->processes.at(fiber.process).threads;
  wake(&fiber, true);
  machine->finished.push_back(fiber.id);
}

}  // namespace

void run_scheduled(const ScheduleOptions& options, const std::function<void()>& body) {
  machine = new Machine;  // never freed: threads of the run outlive it
  machine->options = options;
  machine->schedule = mixed(options.seed ^ 1U);
  machine->system_random = mixed(options.seed ^ 2U);
  machine->product_random = mixed(options.seed ^ 3U);
  machine->processes[kWorld].name = "world";
  Fiber& first = make_fiber(kWorld, "world");
  machine->current = &first;
  body();
}

uint64_t hash_of(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (const unsigned char c : text) hash = (hash ^ c) * 0x100000001b3ULL;
  return hash;
}

bool is_scheduled() { return machine != nullptr; }
int64_t now_ns() { return machine->now; }
int64_t wall_ns() {
  return kEpoch + machine->now + machine->processes.at(machine->current->process).clock_offset;
}
void sleep_for_ns(int64_t duration) {
  block(nullptr, machine->now + std::max<int64_t>(duration, 0));
}

void yield() {
  enqueue(*machine->current);
  switch_to(take_next());
}

ProcessId start_process(const std::string& name, std::function<void()> body) {
  const ProcessId id = machine->next_process++;
  machine->processes[id].name = name;
  start_fiber(id, name, std::move(body));
  return id;
}

void start_thread(ProcessId process, const std::string& name, std::function<void()> body) {
  if (!is_alive(process)) std::abort();
  start_fiber(process, name, std::move(body));
}

ProcessId current_process() { return machine == nullptr ? kWorld : machine->current->process; }

bool is_alive(ProcessId process) {
  const Process& found = machine->processes.at(process);
  return found.threads > 0 && !found.killed;
}

void kill_process(ProcessId process) {
  if (process == kWorld) std::abort();
  Process& killed = machine->processes.at(process);
  killed.killed = true;
  std::vector<Fiber*> threads;
  for (const auto& [id, fiber] : machine->fibers) {
    if (fiber->process == process && !fiber->done) threads.push_back(fiber.get());
  }
  for (Fiber* fiber : threads) {
    if (fiber->syscalls > 0) {
      fiber->doomed = true;
    } else if (fiber != machine->current) {
      remove(*fiber);
    }
  }
  wake(&killed, true);
  if (machine->current->process == process && machine->current->syscalls == 0) leave();
}

void freeze_process(ProcessId process) {
  if (process == current_process()) std::abort();
  Process& frozen = machine->processes.at(process);
  if (std::exchange(frozen.frozen, true)) return;
  std::vector<Fiber*> go_on;
  for (Fiber* fiber : machine->runnable) {
    (is_stopped(*fiber) && fiber->process == process ? frozen.held : go_on).push_back(fiber);
  }
  machine->runnable = std::move(go_on);
}

void thaw_process(ProcessId process) {
  Process& thawed = machine->processes.at(process);
  thawed.frozen = false;
  for (Fiber* fiber : std::exchange(thawed.held, {})) machine->runnable.push_back(fiber);
}

void set_clock_offset(ProcessId process, int64_t offset) {
  machine->processes.at(process).clock_offset = offset;
}

bool wait_for_process(ProcessId process, int64_t until) {
  Process& awaited = machine->processes.at(process);
  while (awaited.threads > 0 && !awaited.killed) {
    if (machine->now >= until) return false;
    block(&awaited, until == INT64_MAX ? kNever : until);
  }
  return true;
}

Syscall::Syscall() { ++machine->current->syscalls; }

Syscall::~Syscall() {
  Fiber& self = *machine->current;
  if (--self.syscalls > 0) return;
  if (self.doomed) leave();
  if (is_stopped(self)) yield();
}

Chance::Chance(std::string_view actor) : state_(mixed(machine->options.seed ^ hash_of(actor))) {}
uint64_t Chance::next() { return draw(state_); }
uint64_t Chance::below(uint64_t limit) { return limit == 0 ? 0 : next() % limit; }
bool Chance::one_in(uint64_t number) { return number != 0 && next() % number == 0; }

Statistics statistics() {
  Statistics now = machine->statistics;
  now.live =
      static_cast<size_t>(std::count_if(machine->fibers.begin(), machine->fibers.end(),
                                        [](const auto& each) { return !each.second->done; }));
  return now;
}

void note(std::string_view text) { add_to_history(hash_of(text)); }

const std::string& current_name() { return machine->processes.at(machine->current->process).name; }

void print_threads() {
  for (const auto& [id, fiber] : machine->fibers) {
    if (fiber->done) continue;
    std::fprintf(stderr, "  #%d %s: %s, wakes at %lld\n", id, fiber->name.c_str(),
                 fiber->runnable ? "can run" : "waits", static_cast<long long>(fiber->wake_at));
  }
}

// --- for libc.cpp ------------------------------------------------------------------------------

bool block(const void* reason, int64_t wake_at) {
  Fiber& self = *machine->current;
  self.runnable = false;
  self.woken = false;
  self.waits_for = reason;
  if (reason != nullptr) machine->waiting[reason].push_back(&self);
  if (wake_at != kNever) {
    self.wake_at = wake_at;
    machine->timers.insert({wake_at, self.id});
  }
  switch_to(take_next());
  return self.woken;
}

void wake(const void* reason, bool all) {
  const auto found = machine->waiting.find(reason);
  if (found == machine->waiting.end()) return;
  std::vector<Fiber*> woken = found->second;
  if (!all && woken.size() > 1) woken = {woken[draw(machine->schedule) % woken.size()]};
  for (Fiber* fiber : woken) {
    fiber->woken = true;
    make_runnable(*fiber);
  }
}

void preempt() {
  const uint64_t one_in = machine->options.preempt_one_in;
  if (one_in != 0 && draw(machine->schedule) % one_in == 0) yield();
}

unsigned current_fiber() {
  return machine == nullptr ? 1 : static_cast<unsigned>(machine->current->id);
}

uint64_t create_thread(ThreadStart start, void* argument) {
  const Fiber& parent = *machine->current;
  Fiber& fiber = make_fiber(parent.process, machine->processes.at(parent.process).name);
  fiber.start = start;
  fiber.argument = argument;
  prepare_context(fiber);
  machine->runnable.push_back(&fiber);
  const auto id = static_cast<uint64_t>(fiber.id);
  preempt();
  return id;
}

bool join_thread(uint64_t thread, void** result) {
  const auto found = machine->fibers.find(static_cast<int>(thread));
  if (found == machine->fibers.end()) return false;
  Fiber& fiber = *found->second;
  while (!fiber.done) block(&fiber, kNever);
  if (result != nullptr) *result = fiber.result;
  machine->finished.push_back(fiber.id);
  return true;
}

void detach_thread(uint64_t thread) {
  const auto found = machine->fibers.find(static_cast<int>(thread));
  if (found == machine->fibers.end()) return;
  found->second->detached = true;
  if (found->second->done) machine->finished.push_back(found->second->id);
}

void fill_random(RandomUse use, void* bytes, uint64_t count) {
  uint64_t& state = use == RandomUse::kSystem ? machine->system_random : machine->product_random;
  auto* to = static_cast<unsigned char*>(bytes);
  for (uint64_t i = 0; i < count; ++i) to[i] = static_cast<unsigned char>(draw(state));
}

int64_t read_clock() {
  if (++machine->clock_reads % kReadsPerMicrosecond == 0) machine->now += 1000;
  return machine->now;
}

}  // namespace compilecache::simulation
