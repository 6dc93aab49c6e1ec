// compilecache-supervise PROGRAM [ARGUMENT...]
//
// Process 1 of the saver's container. The saver may crash, run out of memory or be killed; its
// container may not: the kubelet takes a pod whose sidecar has ended out of its Service, and
// controllers of groups (LeaderWorkerSet) start the whole group anew. So this program does nothing
// but start PROGRAM, again and again with growing pauses, pass SIGTERM and SIGINT on, and end once
// PROGRAM has ended after that. It never ends before, and it asks for no memory once it runs: no
// heap, no threads, and neither libraries nor a C++ runtime to load.
//
// PROGRAM starts with SIGTERM and SIGINT blocked, so that one that comes before it listens waits
// for it. A signal that comes in a pause starts it once more, for its last save. What is left over
// of PROGRAM's own processes is reaped. Where the kubelet's patience is over, it ends all of it.

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <string_view>

#include "agent/restart_pause.hpp"

namespace {

using compilecache::agent::restart_pause;
using std::chrono::milliseconds;

constexpr int kWrongCommandLine = 2;
constexpr int kNotExecuted = 127;

milliseconds now() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return std::chrono::seconds(time.tv_sec) + milliseconds(time.tv_nsec / 1'000'000);
}

// A line of the log in memory of its own, written at once. As base/log.hpp writes them, which needs
// a heap.
class Line {
 public:
  explicit Line(std::string_view level) { time() << " " << level << " "; }

  Line& operator<<(std::string_view text) {
    const size_t room = sizeof(text_) - 1 - length_;  // one for the end of the line
    const size_t count = text.size() < room ? text.size() : room;
    std::memcpy(text_ + length_, text.data(), count);
    length_ += count;
    return *this;
  }
  Line& operator<<(int64_t number) { return digits(number, 1); }

  // It does not wait for a reader of the log: this process has to react to signals.
  void write() {
    text_[length_++] = '\n';
    pollfd ready{STDERR_FILENO, POLLOUT, 0};
    if (::poll(&ready, 1, 0) != 1 || (ready.revents & POLLOUT) == 0) return;
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text_, length_);
  }

 private:
  Line& digits(int64_t number, int least) {
    char reversed[20];
    int count = 0;
    for (; number > 0 || count < least; number /= 10) {
      reversed[count++] = static_cast<char>('0' + number % 10);
    }
    while (count > 0) *this << std::string_view(&reversed[--count], 1);
    return *this;
  }

  // gmtime() reads the time zone's file.
  Line& time() {
    using namespace std::chrono;
    timespec since{};
    ::clock_gettime(CLOCK_REALTIME, &since);
    const sys_seconds time{seconds(since.tv_sec)};
    const auto day = floor<days>(time);
    const year_month_day date(day);
    const hh_mm_ss clock(time - day);
    digits(static_cast<int>(date.year()), 4) << "-";
    digits(static_cast<unsigned>(date.month()), 2) << "-";
    digits(static_cast<unsigned>(date.day()), 2) << "T";
    digits(clock.hours().count(), 2) << ":";
    digits(clock.minutes().count(), 2) << ":";
    digits(clock.seconds().count(), 2) << ".";
    return digits(since.tv_nsec / 1'000'000, 3) << "Z";
  }

  char text_[512];
  size_t length_ = 0;
};

// Whatever can be blocked is, so that nothing but what is waited for has an effect.
class Signals {
 public:
  Signals() {
    sigset_t all;
    ::sigfillset(&all);
    ::sigprocmask(SIG_SETMASK, &all, nullptr);
    ::sigemptyset(&wanted_);
    for (const int number : {SIGTERM, SIGINT, SIGCHLD}) ::sigaddset(&wanted_, number);
    ::sigemptyset(&blocked_in_child_);
    for (const int number : {SIGTERM, SIGINT}) ::sigaddset(&blocked_in_child_, number);
  }

  void set_for_child() const { ::sigprocmask(SIG_SETMASK, &blocked_in_child_, nullptr); }

  // 0 when the time is over; without a limit where it is negative.
  [[nodiscard]] int next(milliseconds time) const {
    const timespec limit{time.count() / 1000, time.count() % 1000 * 1'000'000};
    const int number = time < milliseconds(0) ? ::sigwaitinfo(&wanted_, nullptr)
                                              : ::sigtimedwait(&wanted_, nullptr, &limit);
    return number > 0 ? number : 0;
  }

 private:
  sigset_t wanted_{};
  sigset_t blocked_in_child_{};
};

class Supervisor {
 public:
  explicit Supervisor(char** command) : command_(command) {}

  // Returns after SIGTERM or SIGINT, when the work has ended.
  void run() {
    while (true) {
      reap();
      if (child_ == 0) {
        if (forwarded_) return;
        if (ending_ != 0 || now() >= start_at_) start();
      }
      if (child_ != 0 && ending_ != 0 && !forwarded_) forward(ending_);
      const int signal = signals_.next(child_ != 0 ? milliseconds(-1) : left());
      if (signal == SIGTERM || signal == SIGINT) {
        ending_ = signal;
        if (child_ != 0) forward(signal);
      }
    }
  }

 private:
  [[nodiscard]] milliseconds left() const {
    const milliseconds left = start_at_ - now();
    return left > milliseconds(0) && ending_ == 0 ? left : milliseconds(0);
  }

  void start() {
    started_ = now();
    const pid_t parent = ::getpid();
    child_ = ::fork();
    if (child_ == 0) become_the_work(parent);
    if (child_ > 0) return;
    child_ = 0;
    forwarded_ = ending_ != 0;  // there is nothing to wait for, nor time to try again
    Line line("WARN");
    line << "no process could be made for the saver: " << ::strerrordesc_np(errno);
    plan_restart(line);
  }

  [[noreturn]] void become_the_work(pid_t parent) const {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(kNotExecuted);  // it is gone already
    signals_.set_for_child();
    ::execvp(command_[0], command_);
    (Line("ERROR") << "cannot run " << command_[0] << ": " << ::strerrordesc_np(errno)).write();
    ::_exit(kNotExecuted);
  }

  void forward(int signal) {
    forwarded_ = true;
    ::kill(child_, signal);
  }

  // All that have ended: as process 1 this one inherits the children of others.
  void reap() {
    int status = 0;
    while (const pid_t ended = ::waitpid(-1, &status, WNOHANG)) {
      if (ended < 0) return;
      if (ended == child_) note_end(status);
    }
  }

  void note_end(int status) {
    child_ = 0;
    if (forwarded_) return;
    Line line("WARN");
    if (WIFSIGNALED(status)) {
      line << "the saver was ended by signal " << WTERMSIG(status);
    } else {
      line << "the saver ended with exit code " << WEXITSTATUS(status);
    }
    plan_restart(line);
  }

  void plan_restart(Line& why) {
    pause_ = restart_pause(pause_, now() - started_);
    start_at_ = now() + pause_;
    why << "; the pod is not affected, it is started again after " << pause_.count() << " ms";
    why.write();
  }

  char** const command_;
  const Signals signals_;
  pid_t child_ = 0;  // 0: the work does not run
  milliseconds started_{0}, start_at_{0}, pause_{0};
  int ending_ = 0;          // the signal by which this process was told to end
  bool forwarded_ = false;  // whether the signal was passed on to the work
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    (Line("ERROR") << "usage: compilecache-supervise PROGRAM [ARGUMENT...]").write();
    return kWrongCommandLine;
  }
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // also where process 1 is another's: shareProcessNamespace
  Supervisor(argv + 1).run();
  return 0;
}
