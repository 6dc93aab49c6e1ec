#include "failing_calls.hpp"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <mutex>

namespace compilecache::archive::test {
namespace {

enum class Kind { kOpen, kCreate, kRead, kWrite, kSync, kClose, kMake, kRemove, kLook, kThread };

std::atomic<bool> armed = false;
FailingCalls::Which which{};
std::atomic<unsigned long> count = 0;
std::atomic<bool> failed = false;
std::mutex mutex;
std::string first;

bool can_hit(Kind kind) {
  switch (which.fault) {
    case Fault::kIoError:
    case Fault::kKilled:
      return kind != Kind::kThread;
    case Fault::kDiskFull:
      return kind == Kind::kCreate || kind == Kind::kWrite || kind == Kind::kSync ||
             kind == Kind::kMake || kind == Kind::kClose;
    case Fault::kInterrupted:
      return kind == Kind::kOpen || kind == Kind::kCreate || kind == Kind::kRead ||
             kind == Kind::kWrite || kind == Kind::kSync || kind == Kind::kClose;
    case Fault::kShort:
      return kind == Kind::kRead || kind == Kind::kWrite;
    case Fault::kLate:
      return kind == Kind::kSync || kind == Kind::kClose || kind == Kind::kRemove;
    case Fault::kStale:
      return kind == Kind::kOpen || kind == Kind::kRead || kind == Kind::kLook;
    case Fault::kNoThread:
      return kind == Kind::kThread;
  }
  return false;
}

int error_number() {
  switch (which.fault) {
    case Fault::kDiskFull:
      return ENOSPC;
    case Fault::kInterrupted:
      return EINTR;
    case Fault::kStale:
      return ESTALE;
    case Fault::kNoThread:
      return EAGAIN;
    default:
      return EIO;
  }
}

// Counts the call and returns whether it is to fail.
bool hit(Kind kind, const char* call, const char* path) {
  if (!armed || !can_hit(kind)) return false;
  const unsigned long number = ++count;
  if (number != which.nth && !(which.onward && number > which.nth)) return false;
  if (which.fault == Fault::kKilled) ::_exit(77);
  if (!failed.exchange(true)) {
    const std::lock_guard lock(mutex);
    first = std::string(call) + " " + path;
  }
  return true;
}

template <typename Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}
#define REAL(name) static auto* const real_##name = real<decltype(::name)>(#name)

// Makes a call fail, either without doing anything or after doing its work.
template <typename Call>
auto fail_instead(Call call) -> decltype(call()) {
  if (which.fault == Fault::kLate) (void)call();
  errno = error_number();
  return static_cast<decltype(call())>(-1);
}

size_t shortened(bool was_hit, size_t bytes) {
  return was_hit && which.fault == Fault::kShort && bytes > 1 ? bytes / 2 : bytes;
}

bool is_short(bool was_hit) { return was_hit && which.fault == Fault::kShort; }

}  // namespace

const char* to_string(Fault fault) {
  switch (fault) {
    case Fault::kIoError:
      return "EIO";
    case Fault::kDiskFull:
      return "ENOSPC";
    case Fault::kInterrupted:
      return "EINTR";
    case Fault::kShort:
      return "short";
    case Fault::kLate:
      return "EIO although done";
    case Fault::kStale:
      return "ESTALE";
    case Fault::kNoThread:
      return "EAGAIN for a thread";
    case Fault::kKilled:
      return "killed";
  }
  return "?";
}

FailingCalls::FailingCalls(Which wanted) {
  which = wanted;
  count = 0;
  failed = false;
  first.clear();
  armed = true;
}
FailingCalls::~FailingCalls() { armed = false; }
bool FailingCalls::happened() const { return failed; }
std::string FailingCalls::what() const {
  const std::lock_guard lock(mutex);
  return first;
}

}  // namespace compilecache::archive::test

// These functions replace libc's. The ones of the next library in the linker's order do the work.

using namespace compilecache::archive::test;

extern "C" {

int open(const char* path, int flags, ...) {
  REAL(open);
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  const auto call = [&] { return real_open(path, flags, mode); };
  return hit((flags & O_CREAT) != 0 ? Kind::kCreate : Kind::kOpen, "open", path)
             ? fail_instead(call)
             : call();
}

int openat(int directory, const char* path, int flags, ...) {
  REAL(openat);
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  const auto call = [&] { return real_openat(directory, path, flags, mode); };
  return hit((flags & O_CREAT) != 0 ? Kind::kCreate : Kind::kOpen, "openat", path)
             ? fail_instead(call)
             : call();
}

// The descriptor is closed even if the call fails.
int close(int fd) {
  REAL(close);
  const bool was_hit = hit(Kind::kClose, "close", "");
  const int result = real_close(fd);
  if (!was_hit) return result;
  errno = error_number();
  return -1;
}

ssize_t read(int fd, void* bytes, size_t size) {
  REAL(read);
  const bool was_hit = hit(Kind::kRead, "read", "");
  const auto call = [&] { return real_read(fd, bytes, shortened(was_hit, size)); };
  return was_hit && !is_short(was_hit) ? fail_instead(call) : call();
}

ssize_t pread(int fd, void* bytes, size_t size, off_t offset) {
  REAL(pread);
  const bool was_hit = hit(Kind::kRead, "pread", "");
  const auto call = [&] { return real_pread(fd, bytes, shortened(was_hit, size), offset); };
  return was_hit && !is_short(was_hit) ? fail_instead(call) : call();
}

ssize_t write(int fd, const void* bytes, size_t size) {
  REAL(write);
  const bool was_hit = hit(Kind::kWrite, "write", "");
  const auto call = [&] { return real_write(fd, bytes, shortened(was_hit, size)); };
  return was_hit && !is_short(was_hit) ? fail_instead(call) : call();
}

int statx(int directory, const char* path, int flags, unsigned mask, struct statx* info) {
  REAL(statx);
  const auto call = [&] { return real_statx(directory, path, flags, mask, info); };
  return hit(Kind::kLook, "statx", path) ? fail_instead(call) : call();
}

// These tests do not check durability, and a disk's fsync takes longer than all the rest.
int fsync(int fd) {
  REAL(fsync);
  const auto call = [&] { return armed ? 0 : real_fsync(fd); };
  return hit(Kind::kSync, "fsync", "") ? fail_instead(call) : call();
}

int rename(const char* from, const char* to) noexcept {
  REAL(rename);
  const auto call = [&] { return real_rename(from, to); };
  return hit(which.fault == Fault::kLate ? Kind::kRemove : Kind::kMake, "rename", to)
             ? fail_instead(call)
             : call();
}

int link(const char* from, const char* to) noexcept {
  REAL(link);
  const auto call = [&] { return real_link(from, to); };
  return hit(Kind::kMake, "link", to) ? fail_instead(call) : call();
}

int mkdir(const char* path, mode_t mode) noexcept {
  REAL(mkdir);
  const auto call = [&] { return real_mkdir(path, mode); };
  return hit(Kind::kMake, "mkdir", path) ? fail_instead(call) : call();
}

int mkdirat(int directory, const char* path, mode_t mode) noexcept {
  REAL(mkdirat);
  const auto call = [&] { return real_mkdirat(directory, path, mode); };
  return hit(Kind::kMake, "mkdirat", path) ? fail_instead(call) : call();
}

int unlink(const char* path) noexcept {
  REAL(unlink);
  const auto call = [&] { return real_unlink(path); };
  return hit(Kind::kRemove, "unlink", path) ? fail_instead(call) : call();
}

int unlinkat(int directory, const char* path, int flags) noexcept {
  REAL(unlinkat);
  const auto call = [&] { return real_unlinkat(directory, path, flags); };
  return hit(Kind::kRemove, "unlinkat", path) ? fail_instead(call) : call();
}

int stat(const char* path, struct stat* info) noexcept {
  REAL(stat);
  const auto call = [&] { return real_stat(path, info); };
  return hit(Kind::kLook, "stat", path) ? fail_instead(call) : call();
}

int lstat(const char* path, struct stat* info) noexcept {
  REAL(lstat);
  const auto call = [&] { return real_lstat(path, info); };
  return hit(Kind::kLook, "lstat", path) ? fail_instead(call) : call();
}

int fstat(int fd, struct stat* info) noexcept {
  REAL(fstat);
  const auto call = [&] { return real_fstat(fd, info); };
  return hit(Kind::kLook, "fstat", "") ? fail_instead(call) : call();
}

int statvfs(const char* path, struct statvfs* info) noexcept {
  REAL(statvfs);
  const auto call = [&] { return real_statvfs(path, info); };
  return hit(Kind::kLook, "statvfs", path) ? fail_instead(call) : call();
}

int chmod(const char* path, mode_t mode) noexcept {
  REAL(chmod);
  const auto call = [&] { return real_chmod(path, mode); };
  return hit(Kind::kLook, "chmod", path) ? fail_instead(call) : call();
}

int fchmod(int fd, mode_t mode) noexcept {
  REAL(fchmod);
  const auto call = [&] { return real_fchmod(fd, mode); };
  return hit(Kind::kLook, "fchmod", "") ? fail_instead(call) : call();
}

int futimens(int fd, const timespec times[2]) noexcept {
  REAL(futimens);
  const auto call = [&] { return real_futimens(fd, times); };
  return hit(Kind::kLook, "futimens", "") ? fail_instead(call) : call();
}

DIR* opendir(const char* path) {
  REAL(opendir);
  if (!hit(Kind::kLook, "opendir", path)) return real_opendir(path);
  errno = error_number();
  return nullptr;
}

dirent* readdir(DIR* directory) {
  REAL(readdir);
  if (!hit(Kind::kLook, "readdir", "")) return real_readdir(directory);
  errno = error_number();
  return nullptr;
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                   void* argument) noexcept {
  REAL(pthread_create);
  if (hit(Kind::kThread, "pthread_create", "")) return error_number();
  return real_pthread_create(thread, attributes, start, argument);
}

}  // extern "C"
