// The file system of slow_volume.hpp, as a program:
//
//   slow_volume [--while-stdin] FOLDER MOUNTPOINT STATE
//
// STATE is a file that holds a VolumeState, made when it is not there. Ends, unmounting, at SIGTERM
// or, with --while-stdin, when its standard input ends.

#define FUSE_USE_VERSION 35
#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/slow_volume/backing.hpp"
#include "tests/support/slow_volume/state.hpp"

namespace compilecache::testing {
namespace {

using Kind = VolumeOperation;

Backing* backing = nullptr;
VolumeState* state = nullptr;
std::string mount_point;

// Counts, waits, and says with which error the operation ends, 0 for none.
int before(Kind kind) {
  const VolumeOperations self = operations_of(kind);
  ++state->count[static_cast<size_t>(kind)];
  if (const uint32_t delay = state->delay_us; delay > 0)
    std::this_thread::sleep_for(std::chrono::microseconds(delay));
  ++state->hanging;
  while ((state->hang & self) != 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  --state->hanging;
  if ((state->error_operations & self) == 0) return 0;
  if (state->error_skip > 0 && state->error_skip-- > 0) return 0;
  if (state->error_times-- <= 0) return 0;
  return state->error;
}

// The reply to an operation that gives nothing back but success; `result` is negative when errno
// says why not.
void reply_done(fuse_req_t request, int result) { fuse_reply_err(request, result < 0 ? errno : 0); }

// As if a server whose clock is behind had given the times.
void make_older(struct stat& info) { info.st_mtim.tv_sec -= state->clock_behind_s; }

void reply_entry(fuse_req_t request, fuse_ino_t parent, const char* name,
                 const fuse_file_info* file = nullptr) {
  fuse_entry_param entry{};  // both timeouts 0: nothing is cached
  if (!backing->look_up(parent, name, entry)) {
    const int error = errno;
    if (file != nullptr) ::close(static_cast<int>(file->fh));
    fuse_reply_err(request, error);
    return;
  }
  make_older(entry.attr);
  if (file != nullptr) {
    fuse_reply_create(request, &entry, file);
  } else {
    fuse_reply_entry(request, &entry);
  }
}

void op_init(void*, fuse_conn_info* connection) {
  connection->want &= ~static_cast<unsigned>(FUSE_CAP_READDIRPLUS | FUSE_CAP_READDIRPLUS_AUTO |
                                             FUSE_CAP_WRITEBACK_CACHE);
  connection->max_readahead = 0;
  state->ready = 1;
}

void op_lookup(fuse_req_t request, fuse_ino_t parent, const char* name) {
  if (const int error = before(Kind::kLookup)) return void(fuse_reply_err(request, error));
  reply_entry(request, parent, name);
}

void op_forget(fuse_req_t request, fuse_ino_t node, uint64_t count) {
  backing->forget(node, count);
  fuse_reply_none(request);
}

void op_getattr(fuse_req_t request, fuse_ino_t node, fuse_file_info*) {
  if (const int error = before(Kind::kGetattr)) return void(fuse_reply_err(request, error));
  struct stat info {};
  if (::fstatat(backing->fd(node), "", &info, AT_EMPTY_PATH) != 0)
    return void(fuse_reply_err(request, errno));
  make_older(info);
  fuse_reply_attr(request, &info, 0);
}

void op_setattr(fuse_req_t request, fuse_ino_t node, struct stat* wanted, int which,
                fuse_file_info*) {
  if (const int error = before(Kind::kSetattr)) return void(fuse_reply_err(request, error));
  struct stat info {};
  if (!backing->change(node, *wanted, which) ||
      ::fstatat(backing->fd(node), "", &info, AT_EMPTY_PATH) != 0)
    return void(fuse_reply_err(request, errno));
  make_older(info);
  fuse_reply_attr(request, &info, 0);
}

void op_mkdir(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode) {
  if (const int error = before(Kind::kMkdir)) return void(fuse_reply_err(request, error));
  if (::mkdirat(backing->fd(parent), name, mode) != 0) return reply_done(request, -1);
  reply_entry(request, parent, name);
}

void remove(fuse_req_t request, fuse_ino_t parent, const char* name, int flags) {
  if (const int error = before(Kind::kUnlink)) return void(fuse_reply_err(request, error));
  reply_done(request, ::unlinkat(backing->fd(parent), name, flags));
}

void op_unlink(fuse_req_t request, fuse_ino_t parent, const char* name) {
  remove(request, parent, name, 0);
}

void op_rmdir(fuse_req_t request, fuse_ino_t parent, const char* name) {
  remove(request, parent, name, AT_REMOVEDIR);
}

void op_rename(fuse_req_t request, fuse_ino_t from, const char* name, fuse_ino_t to,
               const char* new_name, unsigned flags) {
  if (const int error = before(Kind::kRename)) return void(fuse_reply_err(request, error));
  reply_done(request, ::renameat2(backing->fd(from), name, backing->fd(to), new_name, flags));
}

void op_link(fuse_req_t request, fuse_ino_t node, fuse_ino_t parent, const char* name) {
  if (const int error = before(Kind::kLink)) return void(fuse_reply_err(request, error));
  if (::linkat(AT_FDCWD, backing->proc_path(node).c_str(), backing->fd(parent), name,
               AT_SYMLINK_FOLLOW) != 0)
    return reply_done(request, -1);
  reply_entry(request, parent, name);
}

void op_open(fuse_req_t request, fuse_ino_t node, fuse_file_info* file) {
  if (const int error = before(Kind::kOpen)) return void(fuse_reply_err(request, error));
  const int fd = ::open(backing->proc_path(node).c_str(), file->flags & ~O_NOFOLLOW);
  if (fd < 0) return reply_done(request, -1);
  file->fh = static_cast<uint64_t>(fd);
  file->direct_io = 1;
  fuse_reply_open(request, file);
}

void op_create(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode,
               fuse_file_info* file) {
  if (const int error = before(Kind::kCreate)) return void(fuse_reply_err(request, error));
  const int fd = ::openat(backing->fd(parent), name, (file->flags | O_CREAT) & ~O_NOFOLLOW, mode);
  if (fd < 0) return reply_done(request, -1);
  file->fh = static_cast<uint64_t>(fd);
  file->direct_io = 1;
  reply_entry(request, parent, name, file);
}

// Each reader takes its turn in one line, as on a wire.
void transfer(size_t bytes) {
  using std::chrono::nanoseconds;
  const uint64_t rate = state->bytes_per_second;
  if (rate == 0) return;
  const int64_t takes =
      static_cast<int64_t>(static_cast<double>(bytes) * 1e9 / static_cast<double>(rate));
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  const int64_t from = std::chrono::duration_cast<nanoseconds>(now).count();
  int64_t before = state->busy_until_ns;
  while (!state->busy_until_ns.compare_exchange_weak(before, std::max(before, from) + takes)) {
  }
  std::this_thread::sleep_for(nanoseconds(std::max(before, from) + takes - from));
}

void op_read(fuse_req_t request, fuse_ino_t, size_t size, off_t offset, fuse_file_info* file) {
  if (const int error = before(Kind::kRead)) return void(fuse_reply_err(request, error));
  std::vector<char> bytes(size);
  const ssize_t count = ::pread(static_cast<int>(file->fh), bytes.data(), size, offset);
  if (count < 0) return reply_done(request, -1);
  transfer(static_cast<size_t>(count));
  fuse_reply_buf(request, bytes.data(), static_cast<size_t>(count));
}

void op_write(fuse_req_t request, fuse_ino_t, const char* bytes, size_t size, off_t offset,
              fuse_file_info* file) {
  if (const int error = before(Kind::kWrite)) return void(fuse_reply_err(request, error));
  const ssize_t count = ::pwrite(static_cast<int>(file->fh), bytes, size, offset);
  if (count < 0) return reply_done(request, -1);
  fuse_reply_write(request, static_cast<size_t>(count));
}

// Nobody waits for it: no round trip.
void op_release(fuse_req_t request, fuse_ino_t, fuse_file_info* file) {
  ::close(static_cast<int>(file->fh));
  fuse_reply_err(request, 0);
}

void op_fsync(fuse_req_t request, fuse_ino_t, int, fuse_file_info* file) {
  if (const int error = before(Kind::kSync)) return void(fuse_reply_err(request, error));
  reply_done(request, ::fsync(static_cast<int>(file->fh)));
}

void op_opendir(fuse_req_t request, fuse_ino_t node, fuse_file_info* file) {
  if (const int error = before(Kind::kList)) return void(fuse_reply_err(request, error));
  const int fd = ::openat(backing->fd(node), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return reply_done(request, -1);
  file->fh = static_cast<uint64_t>(fd);
  fuse_reply_open(request, file);
}

void op_readdir(fuse_req_t request, fuse_ino_t, size_t size, off_t offset, fuse_file_info* file) {
  if (const int error = before(Kind::kList)) return void(fuse_reply_err(request, error));
  std::vector<char> entries;
  if (!list_directory(static_cast<int>(file->fh), offset, size, request, entries))
    return reply_done(request, -1);
  fuse_reply_buf(request, entries.data(), entries.size());
}

void op_statfs(fuse_req_t request, fuse_ino_t node) {
  if (const int error = before(Kind::kStatfs)) return void(fuse_reply_err(request, error));
  struct statvfs info {};
  if (::fstatvfs(backing->fd(node), &info) != 0) return reply_done(request, -1);
  fuse_reply_statfs(request, &info);
}

fuse_lowlevel_ops operations() {
  fuse_lowlevel_ops ops{};
  ops.init = op_init;
  ops.lookup = op_lookup;
  ops.forget = op_forget;
  ops.getattr = op_getattr;
  ops.setattr = op_setattr;
  ops.mkdir = op_mkdir;
  ops.unlink = op_unlink;
  ops.rmdir = op_rmdir;
  ops.rename = op_rename;
  ops.link = op_link;
  ops.open = op_open;
  ops.create = op_create;
  ops.read = op_read;
  ops.write = op_write;
  ops.release = op_release;
  ops.fsync = op_fsync;
  ops.opendir = op_opendir;
  ops.readdir = op_readdir;
  ops.releasedir = op_release;
  ops.fsyncdir = op_fsync;
  ops.statfs = op_statfs;
  return ops;
}

// What hangs cannot be waited for: the process ends under it.
[[noreturn]] void end() {
  static std::atomic<bool> ending{false};
  while (ending.exchange(true)) ::pause();
  if (::umount2(mount_point.c_str(), MNT_DETACH) != 0) {
    const std::string command = "fusermount3 -u -z '" + mount_point + "'";
    if (std::system(command.c_str()) != 0) std::fprintf(stderr, "%s failed\n", command.c_str());
  }
  ::_exit(0);
}

void end_at_signal() {
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) ::sigaddset(&signals, number);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread([signals] {
    int number = 0;
    ::sigwait(&signals, &number);
    end();
  }).detach();
}

void end_with_stdin() {
  std::thread([] {
    char byte = 0;
    while (::read(0, &byte, 1) > 0) continue;
    end();
  }).detach();
}

bool map_state(const char* path) {
  const int fd = ::open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0 || ::ftruncate(fd, sizeof(VolumeState)) != 0) return false;
  void* memory = ::mmap(nullptr, sizeof(VolumeState), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ::close(fd);
  state = static_cast<VolumeState*>(memory);
  return memory != MAP_FAILED;
}

int serve(const char* program) {
  std::string options = "fsname=slow_volume";
  if (::geteuid() == 0) options += ",allow_other";
  std::vector<const char*> arguments{program, "-o", options.c_str()};
  fuse_args args =
      FUSE_ARGS_INIT(static_cast<int>(arguments.size()), const_cast<char**>(arguments.data()));
  const fuse_lowlevel_ops ops = operations();
  fuse_session* session = fuse_session_new(&args, &ops, sizeof ops, nullptr);
  if (session == nullptr || fuse_session_mount(session, mount_point.c_str()) != 0) return 1;
  fuse_loop_config config{};
  config.max_idle_threads = 64;
  fuse_session_loop_mt(session, &config);
  end();
}

}  // namespace
}  // namespace compilecache::testing

int main(int argc, char** argv) {
  using namespace compilecache::testing;
  const bool while_stdin = argc == 5 && std::string(argv[1]) == "--while-stdin";
  if (argc != 4 && !while_stdin) {
    std::fprintf(stderr, "usage: slow_volume [--while-stdin] FOLDER MOUNTPOINT STATE\n");
    return 2;
  }
  char** paths = argv + (while_stdin ? 2 : 1);
  ::umask(0);  // the callers' own has been applied
  mount_point = paths[1];
  backing = new Backing(paths[0]);
  if (!backing->usable() || !map_state(paths[2])) {
    std::perror("slow_volume");
    return 1;
  }
  end_at_signal();
  if (while_stdin) end_with_stdin();
  return serve(argv[0]);
}
