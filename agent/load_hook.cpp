#include "agent/load_hook.hpp"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

namespace compilecache::agent {
namespace {

using std::chrono::milliseconds;

// How long cleaning up may take: the loader reports that, too (3 s, agent/load).
constexpr milliseconds kCleaningTime{8000};
// How long processes that were killed may take to end. One that hangs in the kernel is left alone.
constexpr milliseconds kDyingTime{1000};
constexpr int kMostWords = 16;

// Its processes, the orphaned ones too: this process is their reaper.
class Run {
 public:
  explicit Run(const Signals& signals) : signals_(signals) {}

  // True: it ended by itself, with 0.
  bool run(char* const* command, milliseconds limit) {
    const milliseconds until = monotonic_now() + limit;
    const pid_t parent = ::getpid();
    child_ = ::fork();
    if (child_ == 0) {
      ::setpgid(0, 0);
      die_with(parent);
      Signals::set_for_loader();
      become(command);
    }
    if (child_ < 0) return false;
    ::setpgid(child_, child_);
    const bool ended = wait(until, [this] { return has_ended_; });
    if (!ended) (LogLine("WARN") << "the loader is not done in time; ending it").write();
    ::kill(-child_, SIGKILL);
    wait(monotonic_now() + kDyingTime, [this] { return none_left_; });
    return ended && well_;
  }

  [[nodiscard]] bool told_to_end() const { return told_to_end_; }

 private:
  // False: the time is over.
  template <typename Condition>
  bool wait(milliseconds until, Condition done) {
    for (reap(); !done(); reap()) {
      const milliseconds left = until - monotonic_now();
      if (left <= milliseconds(0)) return false;
      const int signal = signals_.next(left);
      if (signal != SIGTERM && signal != SIGINT) continue;
      told_to_end_ = true;
      ::kill(child_, signal);
    }
    return true;
  }

  void reap() {
    int status = 0;
    while (const pid_t ended = ::waitpid(-1, &status, WNOHANG)) {
      if (ended < 0) {
        none_left_ = errno == ECHILD;
        has_ended_ = has_ended_ || none_left_;
        return;
      }
      if (ended != child_) continue;
      has_ended_ = true;
      well_ = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
  }

  const Signals& signals_;
  pid_t child_ = 0;
  bool has_ended_ = false, none_left_ = false;
  bool well_ = false;  // it ended by itself, with 0
  bool told_to_end_ = false;
};

// PROGRAM load --cold: loads nothing and removes what is not whole.
bool load_nothing(const Signals& signals, char* const* command) {
  static char word[] = "--cold";
  char* words[kMostWords + 2] = {};
  int count = 0;
  for (; count < kMostWords && command[count] != nullptr; ++count) words[count] = command[count];
  words[count] = word;
  Run run(signals);
  run.run(words, kCleaningTime);
  return !run.told_to_end();
}

void note_end(LoadRecord& record) {
  if (record.end()) return;
  (LogLine("WARN") << "cannot note that the load is over; nothing will be saved").write();
}

}  // namespace

bool clean_after_load(LoadRecord& record, const Signals& signals, char* const* command) {
  (LogLine("WARN") << "a load was ended in the middle; starting cold").write();
  const bool goes_on = load_nothing(signals, command);
  note_end(record);
  return goes_on;
}

void run_load_hook(LoadRecord& record, const Signals& signals, char* const* command,
                   milliseconds limit) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  if (record.state() == LoadRecord::State::kOver) return;
  if (!record.enter(limit)) {
    (LogLine("WARN") << "cannot note that a load begins; starting cold").write();
    return;
  }
  switch (record.state()) {
    case LoadRecord::State::kOver:
      return;
    case LoadRecord::State::kBegun:
      clean_after_load(record, signals, command);
      return;
    case LoadRecord::State::kNone:
      break;
  }
  if (!record.begin()) {
    (LogLine("WARN") << "cannot note that a load begins; starting cold").write();
    return;
  }
  if (!Run(signals).run(command, limit)) load_nothing(signals, command);
  note_end(record);
}

}  // namespace compilecache::agent
