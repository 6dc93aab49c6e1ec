// compilecache-supervise [--after-load DIRECTORY] PROGRAM [ARGUMENT...]
//
// Process 1 of the saver's container. The saver may crash, run out of memory or be killed; its
// container may not. The kubelet takes a pod whose sidecar has ended out of its Service, and
// controllers of groups (LeaderWorkerSet) restart the whole group. So this program only starts
// PROGRAM, again and again with growing pauses, and passes SIGTERM and SIGINT on. It ends once
// PROGRAM has ended after that. It never ends before, and it asks for no memory once it runs: no
// heap, no threads, and neither libraries nor a C++ runtime to load.
//
// PROGRAM starts with SIGTERM and SIGINT blocked, so that one that comes before it listens waits
// for it. A signal that comes in a pause starts it once more, for its last save. Leftover
// processes of PROGRAM are reaped. Where the kubelet's patience is over, it ends all of it.
//
// With --after-load it starts PROGRAM when the load of this pod is over (load_record.hpp), which
// the container's postStart hook makes:
//
// compilecache-supervise --load DIRECTORY MILLISECONDS LOG PROGRAM [ARGUMENT...]
//
// That always ends with 0, and what it and the loader say goes to the file LOG: the kubelet
// discards a hook's output. A hook may itself be killed, with the kubelet or by it. Then nothing
// keeps the application from being started, and process 1 at once ends what was begun.

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "agent/load_hook.hpp"
#include "agent/load_record.hpp"
#include "agent/restart_pause.hpp"
#include "agent/supervise_process.hpp"

namespace compilecache::agent {
namespace {

using std::chrono::milliseconds;

constexpr int kWrongCommandLine = 2;
constexpr milliseconds kLookAtLoad{20};

class Supervisor {
 public:
  Supervisor(const Signals& signals, char** command) : command_(command), signals_(signals) {}

  // False: ended before the load was over, so that there is nothing to save.
  bool wait_for_load(LoadRecord& record) {
    while (record.state() != LoadRecord::State::kOver) {
      reap();
      if (record.enter(milliseconds(0))) {
        const bool left = record.state() == LoadRecord::State::kBegun;
        if (left && !clean_after_load(record, signals_, loader())) return false;
        record.leave();
        if (left) continue;
      }
      const int signal = signals_.next(kLookAtLoad);
      if (signal == SIGTERM || signal == SIGINT) return false;
    }
    return true;
  }

  // Returns after SIGTERM or SIGINT, when the work has ended.
  void run() {
    while (true) {
      reap();
      if (child_ == 0) {
        if (forwarded_) return;
        if (ending_ != 0 || monotonic_now() >= start_at_) start();
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
    const milliseconds left = start_at_ - monotonic_now();
    return left > milliseconds(0) && ending_ == 0 ? left : milliseconds(0);
  }

  void start() {
    started_ = monotonic_now();
    const pid_t parent = ::getpid();
    child_ = ::fork();
    if (child_ == 0) {
      die_with(parent);
      signals_.set_for_saver();
      become(command_);
    }
    if (child_ > 0) return;
    child_ = 0;
    forwarded_ = ending_ != 0;  // there is nothing to wait for, nor time to try again
    LogLine line("WARN");
    line << "no process could be made for the saver: " << ::strerrordesc_np(errno);
    plan_restart(line);
  }

  // The program that saves loads, too.
  char* const* loader() {
    static char word[] = "load";
    loader_[0] = command_[0];
    loader_[1] = word;
    return loader_;
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
    LogLine line("WARN");
    if (WIFSIGNALED(status)) {
      line << "the saver was ended by signal " << WTERMSIG(status);
    } else {
      line << "the saver ended with exit code " << WEXITSTATUS(status);
    }
    plan_restart(line);
  }

  void plan_restart(LogLine& why) {
    pause_ = restart_pause(pause_, monotonic_now() - started_);
    start_at_ = monotonic_now() + pause_;
    why << "; the pod is not affected, it is started again after " << pause_.count() << " ms";
    why.write();
  }

  char** const command_;
  char* loader_[3] = {};
  const Signals& signals_;
  pid_t child_ = 0;  // 0: the work does not run
  milliseconds started_{0}, start_at_{0}, pause_{0};
  int ending_ = 0;          // the signal that ended this process
  bool forwarded_ = false;  // whether the signal was passed on to the work
};

int run_wrong(const char* usage) {
  (LogLine("ERROR") << "usage: compilecache-supervise " << usage).write();
  return kWrongCommandLine;
}

// A hook's output is discarded, and it is over only when nobody can write there any more.
void write_to(const char* log) {
  int fd = ::open(log, O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (fd >= 0) ::fcntl(fd, F_SETFL, O_APPEND);
  if (fd < 0) fd = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  ::dup2(fd, STDOUT_FILENO);
  ::dup2(fd, STDERR_FILENO);
}

// A hook never fails.
int run_hook(int argc, char** argv) {
  constexpr int kWords = 5;
  if (argc <= kWords) {
    static_cast<void>(run_wrong("--load DIRECTORY MILLISECONDS LOG PROGRAM [ARGUMENT...]"));
    return 0;
  }
  write_to(argv[4]);
  const Signals signals;
  LoadRecord record(argv[2]);
  run_load_hook(record, signals, argv + kWords, milliseconds(std::atoll(argv[3])));
  return 0;
}

int supervise(const char* record_directory, char** command) {
  if (command[0] == nullptr) return run_wrong("[--after-load DIRECTORY] PROGRAM [ARGUMENT...]");
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // also where process 1 is another's: shareProcessNamespace
  const Signals signals;
  Supervisor supervisor(signals, command);
  if (record_directory != nullptr) {
    LoadRecord record(record_directory);
    if (!supervisor.wait_for_load(record)) return 0;
  }
  supervisor.run();
  return 0;
}

}  // namespace
}  // namespace compilecache::agent

int main(int argc, char** argv) {
  using namespace compilecache::agent;
  const std::string_view first = argc > 1 ? argv[1] : "";
  if (first == "--load") return run_hook(argc, argv);
  if (first == "--after-load" && argc > 2) return supervise(argv[2], argv + 3);
  return supervise(nullptr, argv + 1);
}
