#include "agent/load/subprocess.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <exception>
#include <optional>
#include <utility>

#include "base/log.hpp"

namespace compilecache::agent {
namespace {

using std::chrono::milliseconds;

// How long a process that has called `leaving` may take to end.
constexpr milliseconds kLeavingTime{300};
// How long the loader may take after SIGTERM: it empties the directories that it has filled.
constexpr milliseconds kTerminationTime{10'000};

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int get() const { return fd_; }

 private:
  int fd_;
};

// Blocked as long as it lives: read from fd() instead.
class Signals {
 public:
  Signals() {
    sigset_t wanted;
    sigemptyset(&wanted);
    for (const int number : {SIGTERM, SIGINT, SIGCHLD}) sigaddset(&wanted, number);
    ::pthread_sigmask(SIG_BLOCK, &wanted, &before_);
    fd_ = ::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
  }
  ~Signals() {
    if (fd_ >= 0) ::close(fd_);
    restore();
  }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  [[nodiscard]] int fd() const { return fd_; }
  void restore() const { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  // 0: none has come.
  [[nodiscard]] int next() const {
    signalfd_siginfo info{};
    return ::read(fd_, &info, sizeof(info)) == sizeof(info) ? static_cast<int>(info.ssi_signo) : 0;
  }

 private:
  sigset_t before_{};
  int fd_ = -1;
};

[[noreturn]] void do_work(const std::function<void(const std::function<void()>&)>& work, int tell) {
  const auto leaving = [tell] { [[maybe_unused]] const ssize_t written = ::write(tell, "l", 1); };
  try {
    work(leaving);
  } catch (const std::exception& error) {
    log_error("the work ended early", {{"error", error.what()}});
  }
  leaving();
  ::_exit(0);
}

// Waits for one process.
class Watch {
 public:
  Watch(pid_t process, const Signals& signals, int leaving)
      : process_(process), signals_(signals), leaving_(leaving) {}

  SubprocessEnd run() {
    while (!ended_) {
      if (until_ && std::chrono::steady_clock::now() >= *until_) return kill();
      wait();
    }
    return *ended_;
  }

 private:
  // Kills the process and waits until it has ended, unless it hangs in the kernel.
  SubprocessEnd kill() {
    ::kill(process_, SIGKILL);
    until_.reset();
    leaving_ = -1;
    leave_within(kLeavingTime);
    while (!ended_ && std::chrono::steady_clock::now() < *until_) wait();
    return SubprocessEnd::kEnded;
  }

  void wait() {
    pollfd ready[2] = {{signals_.fd(), POLLIN, 0}, {leaving_, POLLIN, 0}};
    const auto left =
        until_ ? std::chrono::ceil<milliseconds>(*until_ - std::chrono::steady_clock::now()).count()
               : -1;
    ::poll(ready, 2, static_cast<int>(left));
    while (const int number = signals_.next()) {
      if (number != SIGCHLD) {
        ::kill(process_, number);
        leave_within(kTerminationTime);
      }
    }
    int status = 0;
    if (::waitpid(process_, &status, WNOHANG) == process_) {
      ended_ = WIFEXITED(status) && WEXITSTATUS(status) == 0 ? SubprocessEnd::kEnded
                                                             : SubprocessEnd::kCrashed;
    } else if (ready[1].revents != 0) {
      // It has called `leaving`, or all its descriptors are closed: it is ending.
      leaving_ = -1;
      leave_within(kLeavingTime);
    }
  }

  void leave_within(milliseconds time) {
    const auto end = std::chrono::steady_clock::now() + time;
    if (!until_ || end < *until_) until_ = end;
  }

  const pid_t process_;
  const Signals& signals_;
  int leaving_;  // -1: poll() takes no notice of it
  std::optional<std::chrono::steady_clock::time_point> until_;
  std::optional<SubprocessEnd> ended_;
};

}  // namespace

SubprocessEnd run_in_subprocess(const std::function<void(const std::function<void()>&)>& work) {
  const Signals signals;
  int ends[2] = {-1, -1};
  if (signals.fd() < 0 || ::pipe2(ends, O_CLOEXEC) != 0) return SubprocessEnd::kNotStarted;
  const Descriptor leaving_end(ends[0]);
  const pid_t parent = ::getpid();
  pid_t process = -1;
  {
    const Descriptor tell(ends[1]);
    process = ::fork();
    if (process == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(0);  // it has ended already
      signals.restore();
      do_work(work, tell.get());
    }
  }
  if (process < 0) return SubprocessEnd::kNotStarted;
  return Watch(process, signals, leaving_end.get()).run();
}

}  // namespace compilecache::agent
