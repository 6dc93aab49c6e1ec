#include "agent/scan.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "frameworks/elf.hpp"

namespace compilecache::agent {
namespace {

using frameworks::FileInfo;
using frameworks::FileType;

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};
using DirectoryHandle = std::unique_ptr<DIR, CloseDirectory>;

// As deep as archives go (archive::kMaxPathDepth).
constexpr int kMaxDepth = 32;

WallTime time_of(const timespec& time) {
  return WallTime(std::chrono::duration_cast<WallTime::duration>(
      std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec)));
}

FileInfo info_of(std::string path, const struct stat& info) {
  FileInfo file;
  file.path = std::move(path);
  file.type = S_ISREG(info.st_mode)   ? FileType::kRegular
              : S_ISDIR(info.st_mode) ? FileType::kDirectory
                                      : FileType::kOther;
  file.size = static_cast<uint64_t>(info.st_size);
  file.modified = time_of(info.st_mtim);
  file.changed = time_of(info.st_ctim);
  file.accessed = time_of(info.st_atim);
  file.owner = info.st_uid;
  return file;
}

DirectoryHandle open_at(int parent, const char* name) {
  const int fd = ::openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return nullptr;
  DIR* directory = ::fdopendir(fd);
  if (directory == nullptr) ::close(fd);
  return DirectoryHandle(directory);
}

class Walk {
 public:
  explicit Walk(const SeeFile& see) : see_(see) {}

  void below(DIR* directory, const std::string& prefix, int depth) {
    while (const dirent* entry = ::readdir(directory)) {
      const std::string_view name = entry->d_name;
      if (name == "." || name == "..") continue;
      if (seen_ == kMaxScanned) {
        result_.truncated = true;
        return;
      }
      struct stat info {};
      if (::fstatat(::dirfd(directory), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
      ++seen_;
      std::string path = prefix;
      path += name;
      see_(info_of(path, info));
      if (!S_ISDIR(info.st_mode) || depth == kMaxDepth) continue;
      if (const auto child = open_at(::dirfd(directory), entry->d_name)) {
        below(child.get(), path + "/", depth + 1);
      } else if (errno == EACCES) {
        result_.unreadable_directories.add(info.st_uid);
      }
    }
  }

  [[nodiscard]] const WalkResult& result() const { return result_; }

 private:
  const SeeFile& see_;
  size_t seen_ = 0;
  WalkResult result_;
};

}  // namespace

void Unreadable::add(const Unreadable& others) {
  for (const auto& [owner, count] : others.by_owner) by_owner[owner] += count;
}

uint64_t Unreadable::count() const {
  uint64_t sum = 0;
  for (const auto& [owner, count] : by_owner) sum += count;
  return sum;
}

int64_t Unreadable::owner() const {
  int64_t found = -1;
  uint64_t most = 0;
  for (const auto& [owner, count] : by_owner) {
    if (count <= most || owner == static_cast<int64_t>(::geteuid())) continue;
    found = owner;
    most = count;
  }
  return found;
}

Result<WalkResult> walk_directory(const std::string& directory, const SeeFile& see) {
  const auto root = open_at(AT_FDCWD, directory.c_str());
  if (!root) {
    if (errno == ENOENT) return WalkResult{};
    return unexpected(errno_error("reading the cache directory " + directory, errno));
  }
  Walk walk(see);
  walk.below(root.get(), "", 1);
  return walk.result();
}

Result<ScanResult> scan_directory(const std::string& directory) {
  ScanResult scan;
  const auto walked =
      walk_directory(directory, [&](FileInfo&& file) { scan.items.push_back(std::move(file)); });
  if (!walked) return unexpected(walked.error());
  static_cast<WalkResult&>(scan) = *walked;
  return scan;
}

namespace {

constexpr int kReadFlags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;

// Takes the descriptor.
Result<std::string> read_open(int fd, const std::string& path, size_t most) {
  std::string text(most + 1, '\0');
  size_t length = 0;
  ssize_t got = 0;
  while (length < text.size() && (got = ::pread(fd, text.data() + length, text.size() - length,
                                                static_cast<off_t>(length))) > 0) {
    length += static_cast<size_t>(got);
  }
  const int problem = errno;
  ::close(fd);
  if (got < 0) return unexpected(errno_error("reading " + path, problem));
  if (length > most) return fail(ErrorCode::kTooLarge, "reading " + path + ": it is too large");
  text.resize(length);
  return text;
}

}  // namespace

Result<std::string> read_quietly(const std::string& path, size_t most) {
  const int fd = ::open(path.c_str(), kReadFlags | O_NOATIME);
  if (fd < 0) return unexpected(errno_error("opening " + path, errno));
  return read_open(fd, path, most);
}

Result<std::string> read_made(const std::string& path, size_t most) {
  const int fd = ::open(path.c_str(), kReadFlags);
  if (fd < 0) return unexpected(errno_error("opening " + path, errno));
  return read_open(fd, path, most);
}

bool ElfCache::whole(const FileInfo& file) {
  const auto found = seen_.find(file.path);
  if (found != seen_.end() && found->second.size == file.size &&
      found->second.modified == file.modified) {
    return found->second.whole;
  }
  const std::string path = directory_ + "/" + file.path;
  int fd = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NOATIME);
  if (fd < 0 && errno == EPERM) fd = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  // Not readable is not torn: the writer reports it with what to set.
  if (fd < 0) return errno == EACCES;
  const auto read_at = [fd](uint64_t offset, std::span<uint8_t> out) {
    return ::pread(fd, out.data(), out.size(), static_cast<off_t>(offset)) ==
           static_cast<ssize_t>(out.size());
  };
  const bool whole = frameworks::elf_whole(read_at, file.size);
  ::close(fd);
  seen_[file.path] = {file.size, file.modified, whole};
  return whole;
}

}  // namespace compilecache::agent
