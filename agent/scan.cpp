#include "agent/scan.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "archive/beneath.hpp"
#include "frameworks/elf.hpp"
#include "frameworks/stream.hpp"

namespace compilecache::agent {
namespace {

using frameworks::FileInfo;
using frameworks::FileType;
using frameworks::Rules;

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};
using DirectoryHandle = std::unique_ptr<DIR, CloseDirectory>;

// The deepest folder that is scanned; archives allow as much (archive::kMaxPathDepth).
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

// Owns the descriptor from now on.
DirectoryHandle stream_of(int fd) {
  if (fd < 0) return nullptr;
  DIR* directory = ::fdopendir(fd);
  if (directory == nullptr) ::close(fd);
  return DirectoryHandle(directory);
}

DirectoryHandle open_at(int parent, const char* name) {
  return stream_of(::openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

class Walk {
 public:
  explicit Walk(const SeeFile& see) : see_(see) {}

  void below(DIR* directory, const std::string& prefix, int depth) {
    while (const dirent* entry = ::readdir(directory)) {
      const std::string_view name = entry->d_name;
      if (name == "." || name == "..") continue;
      if (seen_ == kMaxScanned) {
        if (!std::exchange(result_.truncated, true)) {
          result_.cut = prefix.substr(0, prefix.size() - std::min<size_t>(prefix.size(), 1));
        }
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

Result<AppFolder> open_root(const std::string& directory) {
  archive::Fd fd = archive::open_folder(directory, O_RDONLY);
  if (fd.valid()) return std::make_shared<const archive::Fd>(std::move(fd));
  if (errno == ENOENT) return AppFolder{};
  return unexpected(errno_error("reading the cache directory " + directory, errno));
}

WalkResult walk_below(const AppFolder& folder, const SeeFile& see) {
  Walk walk(see);
  if (!folder) return walk.result();
  const int fd = ::fcntl(folder->get(), F_DUPFD_CLOEXEC, 0);
  if (const auto root = stream_of(fd)) walk.below(root.get(), "", 1);
  return walk.result();
}

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
  const auto folder = open_root(directory);
  if (!folder) return unexpected(folder.error());
  return walk_below(*folder, see);
}

Result<ScanResult> scan_directory(const std::string& directory) {
  auto folder = open_root(directory);
  if (!folder) return unexpected(folder.error());
  ScanResult scan;
  static_cast<WalkResult&>(scan) =
      walk_below(*folder, [&](FileInfo&& file) { scan.items.push_back(std::move(file)); });
  scan.folder = std::move(*folder);
  return scan;
}

namespace {

Result<std::string> read_beneath(const AppFolder& folder, const std::string& path, size_t most,
                                 int flags) {
  if (!folder) return fail(ErrorCode::kNotFound, "opening " + path + ": its folder is missing");
  const archive::Fd fd = archive::open_beneath(folder->get(), path, O_RDONLY | O_NONBLOCK | flags);
  if (!fd.valid()) return unexpected(errno_error("opening " + path, errno));
  std::string text(most + 1, '\0');
  size_t length = 0;
  ssize_t got = 0;
  while (length < text.size() &&
         (got = ::pread(fd.get(), text.data() + length, text.size() - length,
                        static_cast<off_t>(length))) > 0) {
    length += static_cast<size_t>(got);
  }
  if (got < 0) return unexpected(errno_error("reading " + path, errno));
  if (length > most) return fail(ErrorCode::kTooLarge, "reading " + path + ": it is too large");
  text.resize(length);
  return text;
}

}  // namespace

Result<std::string> read_quietly(const AppFolder& folder, const std::string& path, size_t most) {
  return read_beneath(folder, path, most, O_NOATIME);
}

Result<std::string> read_made(const AppFolder& folder, const std::string& path, size_t most) {
  return read_beneath(folder, path, most, 0);
}

bool WholeFiles::whole(const AppFolder& folder, const FileInfo& file, Rules::WholeBy by) {
  if (by == Rules::WholeBy::kNothing) return true;
  const auto found = seen_.find(file.path);
  if (found != seen_.end() && found->second.size == file.size &&
      found->second.modified == file.modified) {
    return found->second.whole;
  }
  if (!folder) return false;
  constexpr int kFlags = O_RDONLY | O_NONBLOCK;
  archive::Fd fd = archive::open_beneath(folder->get(), file.path, kFlags | O_NOATIME);
  if (!fd.valid() && errno == EPERM) {
    fd = archive::open_beneath(folder->get(), file.path, kFlags);
  }
  // A file that may not be read is not taken for torn: the writer reports it, and says what to set.
  if (!fd.valid()) return errno == EACCES;
  const auto read_at = [&fd](uint64_t offset, std::span<uint8_t> out) {
    return ::pread(fd.get(), out.data(), out.size(), static_cast<off_t>(offset)) ==
           static_cast<ssize_t>(out.size());
  };
  const bool whole = by == Rules::WholeBy::kElf ? frameworks::elf_whole(read_at, file.size)
                                                : frameworks::stream_whole(read_at, file.size);
  seen_[file.path] = {file.size, file.modified, whole};
  return whole;
}

}  // namespace compilecache::agent
