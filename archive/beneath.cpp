#include "archive/beneath.hpp"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <tuple>
#include <vector>

namespace compilecache::archive {
namespace {

constexpr int kWay = O_PATH | O_DIRECTORY | O_CLOEXEC;

std::vector<std::string> parts_of(std::string_view path) {
  std::vector<std::string> parts;
  while (!path.empty()) {
    const size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    if (!part.empty() && part != ".") parts.emplace_back(part);
    path = slash == std::string_view::npos ? "" : path.substr(slash + 1);
  }
  return parts;
}

bool leads_up(const std::vector<std::string>& parts) {
  return std::find(parts.begin(), parts.end(), "..") != parts.end();
}

Fd failed(int problem) {
  errno = problem;
  return {};
}

int open_at(int folder, const char* path, int flags, mode_t mode) {
  return uninterrupted([&] { return ::openat(folder, path, flags, mode); });
}

int open_at_2(int folder, const char* path, int flags, mode_t mode) {
  open_how how{};
  how.flags = static_cast<unsigned>(flags);
  how.mode = (flags & O_CREAT) != 0 ? mode : 0;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  return uninterrupted(
      [&] { return static_cast<int>(::syscall(SYS_openat2, folder, path, &how, sizeof(how))); });
}

// Old kernels lack it, and sandboxes forbid it, with different errors.
bool has_openat2() {
  static const bool has = [] {
    const Fd root(open_at(AT_FDCWD, "/", kWay, 0));
    return Fd(open_at_2(root.get(), ".", kWay, 0)).valid();
  }();
  return has;
}

// The mount that a folder is on. Kernels before 5.8 only distinguish file systems.
std::tuple<uint32_t, uint32_t, uint64_t> mount_of(int folder) {
  struct statx info {};
  if (::statx(folder, "", AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_MNT_ID, &info) != 0) return {};
  const uint64_t id = (info.stx_mask & STATX_MNT_ID) != 0 ? info.stx_mnt_id : 0;
  return {info.stx_dev_major, info.stx_dev_minor, id};
}

Fd root_folder() { return Fd(open_at(AT_FDCWD, "/", kWay, 0)); }

}  // namespace

Fd open_by_parts(int folder, const std::string& path, int flags, mode_t mode) {
  auto parts = parts_of(path);
  if (leads_up(parts)) return failed(EXDEV);
  if (parts.empty()) parts.emplace_back(".");
  Fd here;
  int at = folder;
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    Fd next(open_at(at, parts[i].c_str(), kWay | O_NOFOLLOW, 0));
    if (!next.valid()) return next;
    here = std::move(next);
    at = here.get();
  }
  return Fd(open_at(at, parts.back().c_str(), flags | O_NOFOLLOW | O_CLOEXEC, mode));
}

Fd open_beneath(int folder, const std::string& path, int flags, mode_t mode) {
  if (!has_openat2()) return open_by_parts(folder, path, flags, mode);
  return Fd(open_at_2(folder, path.c_str(), flags | O_CLOEXEC, mode));
}

Fd open_folder(const std::string& path, int flags) {
  const auto parts = parts_of(path);
  if (leads_up(parts)) return failed(EXDEV);
  Fd here = root_folder();
  const auto root = mount_of(here.get());
  size_t next = 0;
  while (here.valid() && next + 1 < parts.size() && mount_of(here.get()) == root) {
    here = Fd(open_at(here.get(), parts[next++].c_str(), kWay, 0));
  }
  if (!here.valid()) return here;
  std::string rest;
  for (; next < parts.size(); ++next) rest += (rest.empty() ? "" : "/") + parts[next];
  return open_beneath(here.get(), rest.empty() ? "." : rest, flags | O_DIRECTORY);
}

Fd step_into(int folder, const std::string& name) {
  const bool follows = mount_of(folder) == mount_of(root_folder().get());
  return Fd(open_at(folder, name.c_str(), follows ? kWay : kWay | O_NOFOLLOW, 0));
}

}  // namespace compilecache::archive
