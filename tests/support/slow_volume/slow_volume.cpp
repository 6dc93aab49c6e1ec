#include "tests/support/slow_volume/slow_volume.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <thread>

#include "tests/support/paths.hpp"

extern char** environ;

namespace compilecache::testing {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr milliseconds kMountTime{10'000};
constexpr milliseconds kEndTime{5'000};

std::runtime_error problem(const std::string& doing) {
  return std::runtime_error("slow volume: " + doing + ": " + std::strerror(errno));
}

VolumeState* map_state(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) throw problem("making " + path);
  void* memory = MAP_FAILED;
  if (::ftruncate(fd, sizeof(VolumeState)) == 0)
    memory = ::mmap(nullptr, sizeof(VolumeState), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ::close(fd);
  if (memory == MAP_FAILED) throw problem("mapping " + path);
  return new (memory) VolumeState;
}

}  // namespace

std::optional<std::string> SlowVolume::missing() {
  const int fd = ::open("/dev/fuse", O_RDWR | O_CLOEXEC);
  if (fd < 0) return std::string("/dev/fuse cannot be opened: ") + std::strerror(errno);
  ::close(fd);
  if (::geteuid() != 0 && ::access("/usr/bin/fusermount3", X_OK) != 0)
    return "not root, and there is no fusermount3";
  return std::nullopt;
}

SlowVolume::SlowVolume() {
  std::string folder = fs::temp_directory_path() / "slow-volume-XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) throw problem("making " + folder);
  folder_ = folder;
  for (const char* name : {"/mount", "/backing"}) fs::create_directory(folder_ + name);
  state_ = map_state(folder_ + "/state");
  start();
  wait_until_mounted();
}

SlowVolume::~SlowVolume() {
  unmount();
  ::munmap(state_, sizeof(VolumeState));
  std::error_code ignored;
  // Never into what is still mounted.
  if (fs::is_empty(folder_ + "/mount", ignored) && !ignored) fs::remove_all(folder_, ignored);
}

std::string SlowVolume::path(const std::string& relative) const {
  return folder_ + "/mount" + (relative.empty() ? "" : "/" + relative);
}

std::string SlowVolume::backing(const std::string& relative) const {
  return folder_ + "/backing" + (relative.empty() ? "" : "/" + relative);
}

void SlowVolume::start() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw problem("making a pipe");
  const std::string mount = path();
  const std::string folder = backing();
  const std::string state = folder_ + "/state";
  const std::string program = testing::in_build("tests/support/slow_volume/slow_volume");
  const char* arguments[] = {program.c_str(), "--while-stdin", folder.c_str(),
                             mount.c_str(),   state.c_str(),   nullptr};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, ends[0], 0);
  const int failed = ::posix_spawn(&server_, program.c_str(), &actions, nullptr,
                                   const_cast<char**>(arguments), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(ends[0]);
  lifeline_ = ends[1];
  errno = failed;
  if (failed != 0) throw problem("starting " + program);
}

void SlowVolume::wait_until_mounted() {
  for (milliseconds waited{0}; waited < kMountTime; waited += milliseconds(2)) {
    if (state_->ready != 0) return;
    if (::waitpid(server_, nullptr, WNOHANG) == server_) {
      server_ = -1;
      break;
    }
    std::this_thread::sleep_for(milliseconds(2));
  }
  unmount();
  throw std::runtime_error("slow volume: mounting " + path() + " failed, see above");
}

void SlowVolume::unmount() {
  ::close(lifeline_);
  for (milliseconds waited{0}; server_ > 0; waited += milliseconds(2)) {
    if (::waitpid(server_, nullptr, WNOHANG) == server_) server_ = -1;
    if (waited == kEndTime) ::kill(server_, SIGKILL);
    if (server_ > 0) std::this_thread::sleep_for(milliseconds(2));
  }
}

void SlowVolume::throughput(uint64_t bytes_per_second) {
  state_->bytes_per_second = bytes_per_second;
}

void SlowVolume::delay(std::chrono::microseconds each) {
  state_->delay_us = static_cast<uint32_t>(each.count());
}

void SlowVolume::clock_behind(std::chrono::seconds by) { state_->clock_behind_s = by.count(); }

void SlowVolume::fail(int error_number, VolumeOperations operations, int64_t skip, int64_t times) {
  state_->error_operations = 0;
  state_->error = error_number;
  state_->error_skip = skip;
  state_->error_times = times;
  state_->error_operations = operations;
}

void SlowVolume::hang(VolumeOperations operations) { state_->hang = operations; }

uint32_t SlowVolume::hanging() const { return state_->hanging; }

void SlowVolume::work() {
  state_->error_operations = 0;
  state_->hang = 0;
}

uint64_t SlowVolume::count(VolumeOperations operations) const {
  uint64_t sum = 0;
  for (size_t i = 0; i < kVolumeOperations; ++i) {
    if ((operations >> i & 1) != 0) sum += state_->count[i];
  }
  return sum;
}

void SlowVolume::reset_counts() {
  for (auto& count : state_->count) count = 0;
}

std::string SlowVolume::counts() const {
  std::string text;
  for (size_t i = 0; i < kVolumeOperations; ++i) {
    if (state_->count[i] == 0) continue;
    text += (text.empty() ? "" : ", ") + std::string(kVolumeOperationNames[i]) + " " +
            std::to_string(state_->count[i]);
  }
  return text;
}

}  // namespace compilecache::testing
