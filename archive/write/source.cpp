#include "archive/write/source.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <functional>
#include <string_view>

#include "archive/beneath.hpp"
#include "base/sha256.hpp"

namespace compilecache::archive {
namespace {

constexpr size_t kFingerprintPiece = 4096;

tl::unexpected<LeftOut> left_out(const SourceFile& file, LeftOutReason reason, std::string detail) {
  return tl::unexpected<LeftOut>({file.path, reason, std::move(detail)});
}

tl::unexpected<LeftOut> left_out(const SourceFile& file, int error) {
  const LeftOutReason reason = error == ENOENT || error == ENOTDIR || error == ESTALE
                                   ? LeftOutReason::kVanished
                               : error == ELOOP ? LeftOutReason::kNotRegular
                                                : LeftOutReason::kUnreadable;
  return left_out(file, reason, file.local + ": " + std::strerror(error));
}

tl::unexpected<LeftOut> busy(const SourceFile& file) {
  return left_out(file, LeftOutReason::kBusy, file.local + " changed while it was read");
}

Fd open_source(const SourceFile& file, int flags) {
  if (file.folder) return open_beneath(file.folder->get(), file.local, flags);
  return Fd(uninterrupted([&] { return ::open(file.local.c_str(), flags | O_NOFOLLOW); }));
}

bool stat_source(const SourceFile& file, struct stat& info) {
  if (!file.folder) return ::lstat(file.local.c_str(), &info) == 0;
  const Fd fd = open_source(file, O_PATH | O_NOFOLLOW);
  return fd.valid() && ::fstat(fd.get(), &info) == 0;
}

// Some file systems have years that 64 bits of nanoseconds cannot express: these are clamped.
int64_t nanoseconds(const timespec& time) {
  constexpr int64_t kMost = INT64_MAX / 1'000'000'000 - 1;
  return std::clamp<int64_t>(time.tv_sec, -kMost, kMost) * 1'000'000'000 + time.tv_nsec;
}

FileStamp stamp_of(const struct stat& info) {
  return {info.st_dev,
          info.st_ino,
          static_cast<uint64_t>(info.st_size),
          nanoseconds(info.st_mtim),
          nanoseconds(info.st_ctim),
          (info.st_mode & S_IXUSR) != 0};
}

}  // namespace

SourceResult<Source> look_at(SourceFile file) {
  if (auto good = check_archive_path(file.path); !good)
    return left_out(file, LeftOutReason::kInvalidPath, good.error().message);
  struct stat info {};
  if (!stat_source(file, info)) return left_out(file, errno);
  if (!S_ISREG(info.st_mode))
    return left_out(file, LeftOutReason::kNotRegular, file.local + " is not a regular file");
  return Source{std::move(file), stamp_of(info), std::nullopt};
}

SourceResult<SourceReader> SourceReader::open(const Source& source) {
  constexpr int kFlags = O_RDONLY | O_NONBLOCK | O_CLOEXEC;
  // Our reads must not look like the application's, as access times show what it used. Only the
  // file's owner and root may request this.
  Fd fd = open_source(source.file, kFlags | O_NOATIME);
  if (!fd.valid() && errno == EPERM) fd = open_source(source.file, kFlags);
  if (!fd.valid()) return left_out(source.file, errno);
  SourceReader reader(source, std::move(fd));
  if (auto same = reader.finish(); !same) return tl::unexpected<LeftOut>(same.error());
  return reader;
}

SourceResult<void> SourceReader::read(std::span<uint8_t> chunk) {
  auto count = read_full(fd_.get(), chunk, source_->file.local);
  if (!count) return left_out(source_->file, LeftOutReason::kUnreadable, count.error().message);
  if (*count != chunk.size()) return busy(source_->file);
  return {};
}

SourceResult<void> SourceReader::read_at(std::span<uint8_t> chunk, uint64_t offset) {
  auto count = pread_full(fd_.get(), chunk, offset, source_->file.local);
  if (!count) return left_out(source_->file, LeftOutReason::kUnreadable, count.error().message);
  if (*count != chunk.size()) return busy(source_->file);
  return {};
}

SourceResult<void> SourceReader::finish() {
  struct stat info {};
  if (::fstat(fd_.get(), &info) != 0) return left_out(source_->file, errno);
  if (!S_ISREG(info.st_mode) || stamp_of(info) != source_->stamp) return busy(source_->file);
  return {};
}

SourceResult<ContentHash> hash_content(const Source& source, std::span<uint8_t> chunk) {
  auto reader = SourceReader::open(source);
  if (!reader) return tl::unexpected<LeftOut>(reader.error());
  Sha256 hash;
  for (uint64_t left = source.stamp.size; left > 0;) {
    const auto piece = chunk.first(static_cast<size_t>(std::min<uint64_t>(left, chunk.size())));
    if (auto read = reader->read(piece); !read) return tl::unexpected<LeftOut>(read.error());
    hash.update(piece);
    left -= piece.size();
  }
  if (auto same = reader->finish(); !same) return tl::unexpected<LeftOut>(same.error());
  return *parse_content_hash(hash.finish_hex());
}

SourceResult<uint64_t> fingerprint(const Source& source) {
  auto reader = SourceReader::open(source);
  if (!reader) return tl::unexpected<LeftOut>(reader.error());
  const uint64_t size = source.stamp.size;
  std::array<uint8_t, 3 * kFingerprintPiece> bytes{};
  const size_t piece = static_cast<size_t>(std::min<uint64_t>(size, kFingerprintPiece));
  const std::array<uint64_t, 3> offsets{0, (size - piece) / 2, size - piece};
  for (size_t i = 0; i < offsets.size(); ++i) {
    const auto chunk = std::span(bytes).subspan(i * piece, piece);
    if (auto read = reader->read_at(chunk, offsets[i]); !read)
      return tl::unexpected<LeftOut>(read.error());
  }
  return std::hash<std::string_view>{}({reinterpret_cast<const char*>(bytes.data()), 3 * piece});
}

}  // namespace compilecache::archive
