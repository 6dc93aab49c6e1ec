#include "agent/files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "frameworks/scan.hpp"

namespace compilecache::agent {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kOpenDirectory = 0777;
constexpr mode_t kReadableFile = 0644;
constexpr size_t kMaxFileBytes = 64 << 20;

class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() {
    if (fd_ >= 0) ::close(fd_);
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] bool valid() const { return fd_ >= 0; }

 private:
  int fd_;
};

Error os_error(const std::string& doing) { return errno_error(doing, errno); }

// fchmod and not mkdir's mode: that one is cut by the umask.
Status open_up(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd.valid()) return unexpected(os_error("opening the directory " + path));
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return unexpected(os_error("looking at " + path));
  if ((info.st_mode & 07777) == kOpenDirectory || info.st_uid != ::geteuid()) return {};
  if (::fchmod(fd.get(), kOpenDirectory) != 0) return unexpected(os_error("opening up " + path));
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

Status write_new_file(const std::string& path, std::string_view text) {
  const Fd fd(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, kReadableFile));
  if (!fd.valid()) return unexpected(os_error("making " + path));
  if (::fchmod(fd.get(), kReadableFile) != 0) return unexpected(os_error("opening up " + path));
  return write_all(fd.get(), text, path);
}

}  // namespace

Status make_open_directory(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0) {
    if (!S_ISDIR(info.st_mode)) return fail(ErrorCode::kInvalid, path + " is not a directory");
    return open_up(path);
  }
  const std::string parent = fs::path(path).parent_path();
  if (!parent.empty() && parent != path && !file_exists(parent)) {
    if (const auto made = make_open_directory(parent); !made) return made;
  }
  if (::mkdir(path.c_str(), kOpenDirectory) != 0 && errno != EEXIST) {
    return unexpected(os_error("making the directory " + path));
  }
  return open_up(path);
}

Status clear_directory(const std::string& directory, const std::string& keep) {
  Status first;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    if (it->path() == keep) continue;
    std::error_code failure;
    fs::remove_all(it->path(), failure);
    if (failure && first) {
      first = unexpected(errno_error("removing " + it->path().string(), failure.value()));
    }
  }
  if (error && error.value() != ENOENT && first) {
    first = unexpected(errno_error("emptying " + directory, error.value()));
  }
  return first;
}

bool directory_filled(const std::string& directory, const std::string& keep) {
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    if (it->path() != keep) return true;
  }
  return false;
}

Status write_file(const std::string& path, std::string_view text) {
  const std::string temporary = path + "." + std::to_string(::getpid()) + ".tmp";
  ::unlink(temporary.c_str());
  auto written = write_new_file(temporary, text);
  if (written && ::rename(temporary.c_str(), path.c_str()) != 0) {
    written = unexpected(os_error("renaming to " + path));
  }
  if (!written) ::unlink(temporary.c_str());
  return written;
}

Result<std::string> read_file(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) {
    if (errno == ENOENT) return fail(ErrorCode::kNotFound, "reading " + path + ": no such file");
    return unexpected(os_error("reading " + path));
  }
  std::string text;
  char buffer[16384];
  while (text.size() <= kMaxFileBytes) {
    const ssize_t got = ::read(fd.get(), buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return unexpected(os_error("reading " + path));
    if (got == 0) return text;
    text.append(buffer, static_cast<size_t>(got));
  }
  return fail(ErrorCode::kTooLarge, "reading " + path + ": more than 64 MiB");
}

bool file_exists(const std::string& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0;
}

Status remove_file(const std::string& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
    return unexpected(os_error("removing " + path));
  }
  return {};
}

bool reads_are_visible(const std::string& directory) {
  const std::string path = directory + "/.compilecache-probe." + std::to_string(::getpid());
  if (!write_new_file(path, "x")) return false;
  bool visible = false;
  {
    const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    const auto unread = frameworks::kUnreadTime.time_since_epoch();
    const timespec times[2] = {
        {std::chrono::duration_cast<std::chrono::seconds>(unread).count(), 0}, {0, UTIME_OMIT}};
    char byte = 0;
    struct stat info {};
    visible = fd.valid() && ::futimens(fd.get(), times) == 0 && ::read(fd.get(), &byte, 1) == 1 &&
              ::fstat(fd.get(), &info) == 0 && info.st_atim.tv_sec != times[0].tv_sec;
  }
  ::unlink(path.c_str());
  return visible;
}

}  // namespace compilecache::agent
