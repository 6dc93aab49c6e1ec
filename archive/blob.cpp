#include "archive/blob.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "archive/format.hpp"

namespace compilecache::archive {
namespace {

// So much is worth telling the kernel to begin with.
constexpr uint64_t kWriteBehindBytes = 8ULL << 20;

std::string blobs_directory(const std::string& store) { return store + "/blobs/sha256"; }

bool has_blob(const std::string& path, uint64_t size) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
         static_cast<uint64_t>(info.st_size) == size;
}

}  // namespace

BlobWriter::BlobWriter(std::string store, std::string temporary, Fd fd)
    : store_(std::move(store)), temporary_(std::move(temporary)), fd_(std::move(fd)) {}

BlobWriter::~BlobWriter() {
  // A moved-from writer has no descriptor.
  if (fd_.valid() && !temporary_.empty()) ::unlink(temporary_.c_str());
}

Result<BlobWriter> BlobWriter::create(const std::string& store) {
  std::string path = blobs_directory(store) + "/" + incomplete_name();
  Fd fd(create_file(path));
  if (!fd.valid()) {
    return unexpected(
        io_error("creating " + path, errno)
            .with("writing a blob (is the store prepared, and the volume writable?)"));
  }
  if (::fchmod(fd.get(), 0644) != 0) {
    const int error = errno;
    ::unlink(path.c_str());
    return unexpected(io_error("chmod of " + path, error));
  }
  return BlobWriter(store, std::move(path), std::move(fd));
}

Status BlobWriter::write(std::span<const uint8_t> bytes) {
  hash_.update(bytes);
  size_ += bytes.size();
  if (auto written = write_all(fd_.get(), bytes, temporary_); !written) return written;
  if (size_ - begun_ >= kWriteBehindBytes) {
    // The disk works while we do, and the fsync at the end finds little left. Only a wish: what
    // goes wrong the fsync reports.
    ::sync_file_range(fd_.get(), static_cast<off_t>(begun_), static_cast<off_t>(size_ - begun_),
                      SYNC_FILE_RANGE_WRITE);
    begun_ = size_;
  }
  return {};
}

Result<FinishedBlob> BlobWriter::finish(const std::vector<std::string>& rewrite) {
  FinishedBlob blob{"sha256:" + hash_.finish_hex(), size_, false};
  const std::string path = blob_path(store_, blob.digest);
  const bool condemned = std::find(rewrite.begin(), rewrite.end(), blob.digest) != rewrite.end();
  if (!condemned && has_blob(path, size_)) {
    blob.existed = true;
    return blob;  // the destructor removes the temporary file
  }
  if (auto synced = sync_file(fd_.get(), temporary_); !synced) return unexpected(synced.error());
  if (auto renamed = rename_file(temporary_, path, fd_.get()); !renamed)
    return unexpected(renamed.error());
  temporary_.clear();
  if (const int error = fd_.close(); error != 0)
    return unexpected(io_error("closing " + path, error));
  return blob;
}

Status sync_blobs(const std::string& store) { return sync_directory(blobs_directory(store)); }

Result<BlobFolder> BlobFolder::open(const std::string& store) {
  // Nothing is read from it: O_PATH spares opening it.
  const std::string path = blobs_directory(store);
  constexpr int kFlags = O_PATH | O_DIRECTORY | O_CLOEXEC;
  Fd fd(uninterrupted([&] { return ::open(path.c_str(), kFlags); }));
  if (!fd.valid()) return unexpected(io_error("opening directory " + path, errno));
  return BlobFolder(store, std::move(fd));
}

Result<RegularFile> BlobFolder::open_blob(const std::string& digest) const {
  if (!is_digest(digest)) {
    return fail(ErrorCode::kInvalid,
                "not a digest: \"" + digest.substr(0, 100) + "\" (want sha256: and 64 digits)");
  }
  const std::string path = blob_path(store_, digest);
  return open_regular(fd_.get(), path.substr(path.rfind('/') + 1), path);
}

Result<std::string> BlobFolder::read(const std::string& digest, uint64_t limit) const {
  auto file = open_blob(digest);
  if (!file) return unexpected(file.error());
  auto content = read_whole(*file, limit, blob_path(store_, digest));
  if (!content) return unexpected(content.error());
  if ("sha256:" + sha256_hex(*content) != digest) {
    return fail(ErrorCode::kCorrupt, "blob " + digest + " in " + store_ +
                                         " is not what its name promises: the archive is lost");
  }
  return content;
}

Status check_blob_size(const std::string& store, const std::string& digest, uint64_t size) {
  const std::string path = blob_path(store, digest);
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0)
    return unexpected(io_error("looking for blob " + path, errno));
  if (!S_ISREG(info.st_mode) || static_cast<uint64_t>(info.st_size) != size) {
    return fail(ErrorCode::kCorrupt, "blob " + digest + " in " + store + " should be a file of " +
                                         std::to_string(size) + " bytes and is not");
  }
  return {};
}

}  // namespace compilecache::archive
