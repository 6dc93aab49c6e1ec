#include "store/directory/blob_files.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "archive/fs.hpp"
#include "store/directory/layout.hpp"

namespace compilecache::store {
namespace {

using archive::Fd;
using archive::incomplete_name;
using archive::io_error;
using archive::local_error;
using archive::RegularFile;
using archive::uninterrupted;

// After this many bytes the kernel is asked to begin writing them out.
constexpr uint64_t kWriteBehindBytes = 8ULL << 20;

constexpr size_t kHashedAtOnce = 256U << 10;

// Errors of files that we write are never kNotFound, which would look like a missing blob of the
// parent.
Error own_error(Error error) {
  if (error.code == ErrorCode::kNotFound) error.code = ErrorCode::kIo;
  return error;
}

Status own(const Status& status) {
  if (!status) return unexpected(own_error(status.error()));
  return {};
}

// Whether the file has exactly these bytes. If one had flipped since it was written, a new archive
// that used this blob could not be loaded. Seldom called, as few blobs are equal.
bool has_blob(const std::string& path, const archive::WrittenBlob& blob) {
  const auto file = archive::open_regular(path);
  if (!file || file->size != blob.size) return false;
  Sha256 hash;
  std::vector<uint8_t> piece(kHashedAtOnce);
  for (uint64_t left = blob.size; left > 0;) {
    const auto count = archive::read_full(file->fd.get(), piece, path);
    if (!count || *count == 0) return false;
    hash.update(std::span(piece).first(*count));
    left -= std::min<uint64_t>(left, *count);
  }
  return "sha256:" + hash.finish_hex() == blob.digest;
}

// Moves aside a folder at a blob's place, as no file can be renamed over it. Its content is never
// deleted.
Status move_folder_aside(const std::string& store, const std::string& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) return {};
  const std::string aside = blobs_directory(store) + "/" + incomplete_name();
  if (::rename(path.c_str(), aside.c_str()) == 0) return {};
  return unexpected(local_error("moving folder " + path + " out of a blob's place", errno));
}

class FileBlob : public archive::BlobReader {
 public:
  FileBlob(RegularFile file, std::string path) : file_(std::move(file)), path_(std::move(path)) {}

  [[nodiscard]] uint64_t size() const override { return file_.size; }
  [[nodiscard]] Result<size_t> read_at(std::span<uint8_t> bytes, uint64_t offset) const override {
    return archive::pread_full(file_.fd.get(), bytes, offset, path_);
  }
  void expect_sequential_reads() override {
    ::posix_fadvise(file_.fd.get(), 0, 0, POSIX_FADV_SEQUENTIAL);
  }

 private:
  const RegularFile file_;
  const std::string path_;  // for messages
};

}  // namespace

FileBlobWriter::FileBlobWriter(std::string store, std::string temporary, Fd fd)
    : store_(std::move(store)), temporary_(std::move(temporary)), fd_(std::move(fd)) {}

FileBlobWriter::~FileBlobWriter() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Result<std::unique_ptr<FileBlobWriter>> FileBlobWriter::create(const std::string& store) {
  std::string path = blobs_directory(store) + "/" + incomplete_name();
  Fd fd(archive::create_file(path));
  if (!fd.valid()) {
    return unexpected(
        local_error("creating " + path, errno)
            .with("writing a blob (is the store prepared, and the volume writable?)"));
  }
  if (::fchmod(fd.get(), 0644) != 0) {
    const int error = errno;
    ::unlink(path.c_str());
    return unexpected(local_error("chmod of " + path, error));
  }
  return std::unique_ptr<FileBlobWriter>(new FileBlobWriter(store, std::move(path), std::move(fd)));
}

Status FileBlobWriter::write(std::span<const uint8_t> bytes) {
  hash_.update(bytes);
  size_ += bytes.size();
  if (auto written = own(archive::write_all(fd_.get(), bytes, temporary_)); !written)
    return written;
  if (size_ - begun_ >= kWriteBehindBytes) {
    // The disk writes while we compress, so that the fsync at the end has little left to do. A mere
    // hint: the fsync reports errors.
    ::sync_file_range(fd_.get(), static_cast<off_t>(begun_), static_cast<off_t>(size_ - begun_),
                      SYNC_FILE_RANGE_WRITE);
    begun_ = size_;
  }
  return {};
}

Result<archive::WrittenBlob> FileBlobWriter::commit(const std::vector<std::string>& rewrite) {
  archive::WrittenBlob blob{"sha256:" + hash_.finish_hex(), size_, false};
  const std::string path = blob_path(store_, blob.digest);
  const bool condemned = std::find(rewrite.begin(), rewrite.end(), blob.digest) != rewrite.end();
  if (!condemned && has_blob(path, blob)) {
    blob.existed = true;
    return blob;  // the destructor removes the temporary file
  }
  if (auto synced = own(archive::sync_file(fd_.get(), temporary_)); !synced)
    return unexpected(synced.error());
  if (auto moved = move_folder_aside(store_, path); !moved) return unexpected(moved.error());
  if (auto renamed = own(archive::rename_file(temporary_, path, fd_.get())); !renamed)
    return unexpected(renamed.error());
  temporary_.clear();
  if (const int error = fd_.close(); error != 0)
    return unexpected(local_error("closing " + path, error));
  return blob;
}

Status sync_blobs(const std::string& store) {
  return own(archive::sync_directory(blobs_directory(store)));
}

Result<BlobFolder> BlobFolder::open(const std::string& store) {
  // The folder itself is not read: O_PATH saves a round trip for opening it.
  const std::string path = blobs_directory(store);
  constexpr int kFlags = O_PATH | O_DIRECTORY | O_CLOEXEC;
  Fd fd(uninterrupted([&] { return ::open(path.c_str(), kFlags); }));
  if (!fd.valid()) return unexpected(io_error("opening directory " + path, errno));
  return BlobFolder(store, std::move(fd));
}

Result<std::unique_ptr<archive::BlobReader>> BlobFolder::open_blob(
    const std::string& digest) const {
  const std::string path = blob_path(store_, digest);
  const std::string name = path.substr(path.rfind('/') + 1);
  auto file = archive::open_regular(fd_.get(), name, path);
  // Also finds files that the mount lets nobody open, such as devices.
  struct stat info {};
  if (!file && ::fstatat(fd_.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 &&
      !S_ISREG(info.st_mode)) {
    file = fail(ErrorCode::kCorrupt, "blob " + digest + " in " + store_ +
                                         " is not a file but a link, folder or device; the archive "
                                         "is lost");
  }
  if (!file) return unexpected(file.error().about(digest));
  return std::make_unique<FileBlob>(std::move(*file), path);
}

Result<uint64_t> blob_size(const std::string& store, const std::string& digest) {
  const std::string path = blob_path(store, digest);
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0)
    return unexpected(io_error("looking for blob " + path, errno).about(digest));
  if (!S_ISREG(info.st_mode)) {
    return unexpected(Error{ErrorCode::kCorrupt,
                            "blob " + digest + " in " + store + " should be a file and is not",
                            digest});
  }
  return static_cast<uint64_t>(info.st_size);
}

}  // namespace compilecache::store
