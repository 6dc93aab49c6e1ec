#pragma once

#include <sys/stat.h>

#include <cerrno>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.hpp"
#include "base/error.hpp"

// System calls as the rest of archive/ needs them: interrupted calls are repeated, short reads and
// writes are completed, and errors say what was done to which path.

namespace compilecache::archive {

// Owns a file descriptor.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() { reset(); }
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }

  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] bool valid() const { return fd_ >= 0; }
  void reset();
  // Call it for files that were written: network file systems report lost writes here. Returns
  // errno or 0.
  int close();

 private:
  int fd_ = -1;
};

// When the file was last written.
WallTime modification_time(const struct stat& info);

// Repeats a system call such as open(2) or fsync(2) until no signal interrupts it. On network file
// systems that are mounted with `intr`, signals do.
template <typename Call>
int uninterrupted(Call call) {
  for (;;) {
    const int result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

// errno as an Error. ENOENT and ESTALE (deleted under us on a network file system) are kNotFound,
// EACCES and EPERM kForbidden, the rest kIo.
Error io_error(const std::string& doing, int error_number);
// The same for files outside the store. It never returns kNotFound, which would look like a missing
// blob.
Error local_error(const std::string& doing, int error_number);

struct RegularFile {
  Fd fd;
  uint64_t size = 0;
};

// Opens a regular file for reading; it follows no link and does not block on a FIFO. With a
// directory, `name` is relative to it and `path` is only used in messages. A network file system
// needs one round trip to look the file up and one to open it; the attributes that come with these
// are not requested again. kInvalid: not a regular file.
Result<RegularFile> open_regular(int directory, const std::string& name, const std::string& path);
Result<RegularFile> open_regular(const std::string& path);
Result<Fd> open_directory(const std::string& path);

Status write_all(int fd, std::span<const uint8_t> bytes, const std::string& path);
// Reads bytes.size() bytes, fewer only at the end of the file.
Result<size_t> read_full(int fd, std::span<uint8_t> bytes, const std::string& path);
Result<size_t> pread_full(int fd, std::span<uint8_t> bytes, uint64_t offset,
                          const std::string& path);

// Reads the whole of an open file. kTooLarge: it has more than `limit` bytes.
Result<std::string> read_whole(const RegularFile& file, uint64_t limit, const std::string& path);
// Reads a whole small file. kTooLarge: it has more than `limit` bytes.
Result<std::string> read_small_file(const std::string& path, uint64_t limit);

// A unique name that a sweep recognises: "<random>.incomplete".
std::string incomplete_name();
bool is_incomplete_name(std::string_view name);

// Puts a file of mode 0644 at directory/name, atomically and durably. An existing file is replaced.
Status replace_file(const std::string& directory, const std::string& name,
                    std::string_view content);

// rename(2). On a network file system it can fail although the file was renamed: the inode number
// decides then.
Status rename_file(const std::string& from, const std::string& to, int from_fd);

// Creates a file for writing, mode 0644. On failure the descriptor is not valid and errno is set.
Fd create_file(const std::string& path);

Status sync_file(int fd, const std::string& path);
Status sync_directory(const std::string& path);

}  // namespace compilecache::archive
