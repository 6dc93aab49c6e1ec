#include "agent/load_record.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>

#include "agent/supervise_process.hpp"

namespace compilecache::agent {
namespace {

using std::chrono::milliseconds;

constexpr const char* kLock = "lock";
constexpr const char* kLoading = "loading";
constexpr const char* kUnwritten = "loading.part";
constexpr const char* kOver = "over";
constexpr milliseconds kPause{5};
constexpr mode_t kMode = 0644;

size_t read_some(int fd, char* to, size_t most) {
  const ssize_t count = ::read(fd, to, most);
  return count > 0 ? static_cast<size_t>(count) : 0;
}

void pause() {
  const timespec time{0, std::chrono::nanoseconds(kPause).count()};
  ::nanosleep(&time, nullptr);
}

}  // namespace

LoadRecord::LoadRecord(const char* directory)
    : directory_(::open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC)) {
  const int fd = ::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  boot_id_length_ = read_some(fd, boot_id_, sizeof(boot_id_));
  ::close(fd);
}

bool LoadRecord::is_of_this_boot(const char* file) const {
  const int fd = ::openat(directory_, file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return false;
  char text[sizeof(boot_id_)];
  const size_t length = read_some(fd, text, sizeof(text));
  ::close(fd);
  return length == boot_id_length_ && std::memcmp(text, boot_id_, length) == 0;
}

LoadRecord::State LoadRecord::state() const {
  if (is_of_this_boot(kOver)) return State::kOver;
  return is_of_this_boot(kLoading) ? State::kBegun : State::kNone;
}

// Without O_CLOEXEC: while a program that was started with it lives, the load is not over.
bool LoadRecord::enter(milliseconds limit) {
  const milliseconds until = monotonic_now() + limit;
  if (lock_ < 0) lock_ = ::openat(directory_, kLock, O_RDWR | O_CREAT | O_NOFOLLOW, kMode);
  if (lock_ < 0) return false;
  while (::flock(lock_, LOCK_EX | LOCK_NB) != 0) {
    if ((errno != EWOULDBLOCK && errno != EINTR) || monotonic_now() >= until) {
      leave();
      return false;
    }
    pause();
  }
  return true;
}

void LoadRecord::leave() {
  if (lock_ >= 0) ::close(lock_);
  lock_ = -1;
}

// A process that is killed here leaves a whole note or none.
bool LoadRecord::begin() {
  const int fd = ::openat(directory_, kUnwritten,
                          O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, kMode);
  if (fd < 0) return false;
  const ssize_t written = ::write(fd, boot_id_, boot_id_length_);
  ::close(fd);
  return written == static_cast<ssize_t>(boot_id_length_) &&
         ::renameat(directory_, kUnwritten, directory_, kLoading) == 0;
}

// A rename, for which there is room on a full disk too.
bool LoadRecord::end() { return ::renameat(directory_, kLoading, directory_, kOver) == 0; }

}  // namespace compilecache::agent
