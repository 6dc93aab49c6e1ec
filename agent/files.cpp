#include "agent/files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "archive/beneath.hpp"
#include "frameworks/scan.hpp"

namespace compilecache::agent {
namespace {

namespace fs = std::filesystem;
using archive::Fd;
using archive::open_beneath;
using archive::open_folder;

constexpr mode_t kOpenDirectory = 0777;
constexpr mode_t kReadableFile = 0644;
constexpr size_t kMaxFileBytes = 64 << 20;

Error os_error(const std::string& doing) { return errno_error(doing, errno); }

// A path in a folder that the app may have changed.
struct Place {
  Fd folder;
  std::string name;
};

Result<Place> place_of(const std::string& path) {
  const fs::path whole(path);
  Fd folder = open_folder(whole.parent_path(), O_PATH);
  if (!folder.valid()) return unexpected(os_error("opening " + whole.parent_path().string()));
  return Place{std::move(folder), whole.filename()};
}

// fchmod and not mkdir's mode: that one is cut by the umask.
Status open_up(int directory, const std::string& path) {
  struct stat info {};
  if (::fstat(directory, &info) != 0) return unexpected(os_error("looking at " + path));
  if ((info.st_mode & 07777) == kOpenDirectory || info.st_uid != ::geteuid()) return {};
  if (::fchmod(directory, kOpenDirectory) != 0) return unexpected(os_error("opening up " + path));
  return {};
}

Status write_all(int fd, std::string_view text, const std::string& path) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return unexpected(os_error("writing " + path));
    text.remove_prefix(static_cast<size_t>(written));
  }
  return {};
}

Status write_new_file(const Place& place, const std::string& path, std::string_view text) {
  const Fd fd =
      open_beneath(place.folder.get(), place.name, O_WRONLY | O_CREAT | O_EXCL, kReadableFile);
  if (!fd.valid()) return unexpected(os_error("making " + path));
  if (::fchmod(fd.get(), kReadableFile) != 0) return unexpected(os_error("opening up " + path));
  return write_all(fd.get(), text, path);
}

// The rest of an open file.
Result<std::string> read_all(int fd, const std::string& path) {
  std::string text;
  char buffer[16384];
  while (text.size() <= kMaxFileBytes) {
    const ssize_t got = ::read(fd, buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return unexpected(os_error("reading " + path));
    if (got == 0) return text;
    text.append(buffer, static_cast<size_t>(got));
  }
  return fail(ErrorCode::kTooLarge, "reading " + path + ": more than 64 MiB");
}

// A path to an open folder that no link leads away from.
std::string path_of(const Fd& folder) { return "/proc/self/fd/" + std::to_string(folder.get()); }

}  // namespace

Status make_open_directory(const std::string& path) {
  Fd directory = open_folder(path, O_RDONLY);
  if (!directory.valid() && errno == ENOENT) {
    const std::string parent = fs::path(path).parent_path();
    if (!parent.empty() && parent != path && !open_folder(parent, O_PATH).valid() &&
        errno == ENOENT) {
      if (const auto made = make_open_directory(parent); !made) return made;
    }
    const auto place = place_of(path);
    if (!place) return unexpected(place.error());
    if (::mkdirat(place->folder.get(), place->name.c_str(), kOpenDirectory) != 0 &&
        errno != EEXIST) {
      return unexpected(os_error("making the directory " + path));
    }
    directory = open_folder(path, O_RDONLY);
  }
  if (directory.valid()) return open_up(directory.get(), path);
  if (errno == ENOTDIR || errno == ELOOP) {
    return fail(ErrorCode::kInvalid, path + " is not a directory, or there is a link on the way");
  }
  return unexpected(os_error("opening the directory " + path));
}

Status clear_directory(const std::string& directory, const std::string& keep) {
  const Fd folder = open_folder(directory, O_RDONLY);
  if (!folder.valid()) {
    if (errno == ENOENT) return {};
    return unexpected(os_error("emptying " + directory));
  }
  Status first;
  std::error_code error;
  for (fs::directory_iterator it(path_of(folder), error), end; !error && it != end;
       it.increment(error)) {
    if (fs::path(directory) / it->path().filename() == keep) continue;
    std::error_code failure;
    fs::remove_all(it->path(), failure);
    if (failure && first) {
      first = unexpected(errno_error(
          "removing " + it->path().filename().string() + " in " + directory, failure.value()));
    }
  }
  if (error && first) {
    first = unexpected(errno_error("emptying " + directory, error.value()));
  }
  return first;
}

bool directory_filled(const std::string& directory, const std::string& keep) {
  const Fd folder = open_folder(directory, O_RDONLY);
  if (!folder.valid()) return false;
  std::error_code error;
  for (fs::directory_iterator it(path_of(folder), error), end; !error && it != end;
       it.increment(error)) {
    if (fs::path(directory) / it->path().filename() != keep) return true;
  }
  return false;
}

Status write_file(const std::string& path, std::string_view text) {
  auto place = place_of(path);
  if (!place) return unexpected(place.error());
  const std::string name = place->name;
  place->name += "." + std::to_string(::getpid()) + ".tmp";
  const int folder = place->folder.get();
  ::unlinkat(folder, place->name.c_str(), 0);
  auto written = write_new_file(*place, path, text);
  if (written && ::renameat(folder, place->name.c_str(), folder, name.c_str()) != 0) {
    written = unexpected(os_error("renaming to " + path));
  }
  if (!written) ::unlinkat(folder, place->name.c_str(), 0);
  return written;
}

Result<std::string> read_file(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return unexpected(os_error("reading " + path));
  return read_all(fd.get(), path);
}

Result<std::string> read_app_file(const std::string& path) {
  const auto place = place_of(path);
  if (!place) return unexpected(place.error());
  const Fd fd = open_beneath(place->folder.get(), place->name, O_RDONLY | O_NONBLOCK);
  if (!fd.valid()) return unexpected(os_error("reading " + path));
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return unexpected(os_error("looking at " + path));
  if (!S_ISREG(info.st_mode)) {
    return fail(ErrorCode::kInvalid, "reading " + path + ": it is not a regular file");
  }
  return read_all(fd.get(), path);
}

std::optional<WallTime> modified_at(const std::string& path) {
  const auto place = place_of(path);
  struct stat info {};
  if (!place) return std::nullopt;
  const int folder = place->folder.get();
  if (::fstatat(folder, place->name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) return std::nullopt;
  return WallTime(std::chrono::duration_cast<WallTime::duration>(
      std::chrono::seconds(info.st_mtim.tv_sec) + std::chrono::nanoseconds(info.st_mtim.tv_nsec)));
}

bool file_exists(const std::string& path) { return modified_at(path).has_value(); }

Status remove_file(const std::string& path) {
  const auto place = place_of(path);
  if (!place) {
    if (place.error().code == ErrorCode::kNotFound) return {};
    return unexpected(place.error());
  }
  if (::unlinkat(place->folder.get(), place->name.c_str(), 0) != 0 && errno != ENOENT) {
    return unexpected(os_error("removing " + path));
  }
  return {};
}

bool reads_are_visible(const std::string& directory) {
  const std::string path = directory + "/.compilecache-probe." + std::to_string(::getpid());
  const auto place = place_of(path);
  if (!place || !write_new_file(*place, path, "x")) return false;
  bool visible = false;
  {
    const Fd fd = open_beneath(place->folder.get(), place->name, O_RDONLY);
    const auto unread = frameworks::kUnreadTime.time_since_epoch();
    const timespec times[2] = {
        {std::chrono::duration_cast<std::chrono::seconds>(unread).count(), 0}, {0, UTIME_OMIT}};
    char byte = 0;
    struct stat info {};
    visible = fd.valid() && ::futimens(fd.get(), times) == 0 && ::read(fd.get(), &byte, 1) == 1 &&
              ::fstat(fd.get(), &info) == 0 && info.st_atim.tv_sec != times[0].tv_sec;
  }
  ::unlinkat(place->folder.get(), place->name.c_str(), 0);
  return visible;
}

}  // namespace compilecache::agent
