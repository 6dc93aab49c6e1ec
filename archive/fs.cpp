#include "archive/fs.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/random.hpp"

namespace compilecache::archive {
namespace {

constexpr std::string_view kIncompleteSuffix = ".incomplete";

std::span<const uint8_t> as_bytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// Removes the temporary file unless it was renamed away.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::string path) : path_(std::move(path)) {}
  ~TemporaryFile() {
    if (!kept_) ::unlink(path_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  void keep() { kept_ = true; }

 private:
  std::string path_;
  bool kept_ = false;
};

}  // namespace

WallTime modification_time(const struct stat& info) {
  return WallTime(std::chrono::duration_cast<WallTime::duration>(
      std::chrono::seconds(info.st_mtim.tv_sec) + std::chrono::nanoseconds(info.st_mtim.tv_nsec)));
}

void Fd::reset() { close(); }

int Fd::close() {
  if (fd_ < 0) return 0;
  // Never retried: on Linux the descriptor is freed whatever close() returns.
  const int failed = ::close(std::exchange(fd_, -1));
  return failed == 0 || errno == EINTR ? 0 : errno;
}

Error io_error(const std::string& doing, int error_number) {
  Error error = errno_error(doing, error_number);
  switch (error_number) {
    case ENOENT:
    case ESTALE:
      error.code = ErrorCode::kNotFound;
      break;
    case EACCES:
    case EPERM:
      error.code = ErrorCode::kForbidden;
      break;
    default:
      error.code = ErrorCode::kIo;
  }
  return error;
}

Error local_error(const std::string& doing, int error_number) {
  Error error = io_error(doing, error_number);
  if (error.code == ErrorCode::kNotFound) error.code = ErrorCode::kIo;
  return error;
}

Result<RegularFile> open_regular(int directory, const std::string& name, const std::string& path) {
  constexpr int kFlags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  Fd fd(uninterrupted([&] { return ::openat(directory, name.c_str(), kFlags); }));
  if (!fd.valid()) {
    if (errno == ELOOP) return fail(ErrorCode::kInvalid, "opening " + path + ": it is a link");
    return unexpected(io_error("opening " + path, errno));
  }
  struct statx info {};
  constexpr int kAsOpened = AT_EMPTY_PATH | AT_STATX_DONT_SYNC;
  if (::statx(fd.get(), "", kAsOpened, STATX_TYPE | STATX_SIZE, &info) != 0)
    return unexpected(io_error("looking at " + path, errno));
  if (!S_ISREG(info.stx_mode))
    return fail(ErrorCode::kInvalid, "opening " + path + ": it is not a regular file");
  return RegularFile{std::move(fd), info.stx_size};
}

Result<RegularFile> open_regular(const std::string& path) {
  return open_regular(AT_FDCWD, path, path);
}

Result<Fd> open_directory(const std::string& path) {
  constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
  Fd fd(uninterrupted([&] { return ::open(path.c_str(), kFlags); }));
  if (!fd.valid()) return unexpected(io_error("opening directory " + path, errno));
  return fd;
}

Status write_all(int fd, std::span<const uint8_t> bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return unexpected(io_error("writing " + path, errno));
    }
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return {};
}

Result<size_t> read_full(int fd, std::span<uint8_t> bytes, const std::string& path) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = ::read(fd, bytes.data() + done, bytes.size() - done);
    if (count < 0) {
      if (errno == EINTR) continue;
      return unexpected(io_error("reading " + path, errno));
    }
    if (count == 0) break;
    done += static_cast<size_t>(count);
  }
  return done;
}

Result<size_t> pread_full(int fd, std::span<uint8_t> bytes, uint64_t offset,
                          const std::string& path) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count =
        ::pread(fd, bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
    if (count < 0) {
      if (errno == EINTR) continue;
      return unexpected(io_error("reading " + path, errno));
    }
    if (count == 0) break;
    done += static_cast<size_t>(count);
  }
  return done;
}

Result<std::string> read_whole(const RegularFile& file, uint64_t limit, const std::string& path) {
  if (file.size > limit) {
    return fail(ErrorCode::kTooLarge, "reading " + path + ": it has " + std::to_string(file.size) +
                                          " bytes, allowed are " + std::to_string(limit));
  }
  std::string content(static_cast<size_t>(file.size), '\0');
  auto count =
      read_full(file.fd.get(), {reinterpret_cast<uint8_t*>(content.data()), content.size()}, path);
  if (!count) return unexpected(count.error());
  content.resize(*count);
  return content;
}

Result<std::string> read_small_file(const std::string& path, uint64_t limit) {
  auto file = open_regular(path);
  if (!file) return unexpected(file.error());
  return read_whole(*file, limit, path);
}

std::string incomplete_name() {
  static const Random random = system_random();
  return random_id(random) + std::string(kIncompleteSuffix);
}

bool is_incomplete_name(std::string_view name) { return name.ends_with(kIncompleteSuffix); }

Status replace_file(const std::string& directory, const std::string& name,
                    std::string_view content) {
  const std::string temporary = directory + "/" + incomplete_name();
  const std::string path = directory + "/" + name;
  Fd fd(create_file(temporary));
  if (!fd.valid()) return unexpected(io_error("creating " + temporary, errno));
  TemporaryFile guard(temporary);
  if (::fchmod(fd.get(), 0644) != 0) return unexpected(io_error("chmod of " + temporary, errno));
  if (auto written = write_all(fd.get(), as_bytes(content), temporary); !written) return written;
  if (auto synced = sync_file(fd.get(), temporary); !synced) return synced;
  if (auto renamed = rename_file(temporary, path, fd.get()); !renamed) return renamed;
  guard.keep();
  if (const int error = fd.close(); error != 0)
    return unexpected(io_error("closing " + path, error));
  return sync_directory(directory);
}

Status rename_file(const std::string& from, const std::string& to, int from_fd) {
  if (::rename(from.c_str(), to.c_str()) == 0) return {};
  const int error = errno;
  struct stat source {};
  struct stat target {};
  if (::fstat(from_fd, &source) == 0 && ::lstat(to.c_str(), &target) == 0 &&
      source.st_ino == target.st_ino && source.st_dev == target.st_dev) {
    return {};
  }
  return unexpected(io_error("renaming " + from + " to " + to, error));
}

Fd create_file(const std::string& path) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  return Fd(uninterrupted([&] { return ::open(path.c_str(), kFlags, 0644); }));
}

Status sync_file(int fd, const std::string& path) {
  if (uninterrupted([&] { return ::fsync(fd); }) == 0) return {};
  return unexpected(io_error("syncing " + path, errno));
}

Status sync_directory(const std::string& path) {
  auto fd = open_directory(path);
  if (!fd) return unexpected(fd.error());
  // EINVAL: the file system does not support it; its renames cannot be made more durable.
  if (uninterrupted([&] { return ::fsync(fd->get()); }) != 0 && errno != EINVAL)
    return unexpected(io_error("syncing directory " + path, errno));
  return {};
}

}  // namespace compilecache::archive
