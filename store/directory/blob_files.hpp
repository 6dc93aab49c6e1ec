#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "archive/blob_store.hpp"
#include "archive/fs.hpp"
#include "base/error.hpp"
#include "base/sha256.hpp"

// The blobs of a directory. They are written to a temporary file, synced and renamed into place, so
// that a blob under its name is always whole.

namespace compilecache::store {

// Its errors are never kNotFound or kCorrupt, which are about blobs that the store should have.
class FileBlobWriter : public archive::BlobWriter {
 public:
  static Result<std::unique_ptr<FileBlobWriter>> create(const std::string& store);
  ~FileBlobWriter() override;
  FileBlobWriter(const FileBlobWriter&) = delete;
  FileBlobWriter& operator=(const FileBlobWriter&) = delete;

  Status write(std::span<const uint8_t> bytes) override;
  [[nodiscard]] uint64_t size() const override { return size_; }
  // An existing blob that is kept is not touched, not even its times: blobs never change, only
  // their owner could touch them, and sweeps decide by digest, not by age.
  Result<archive::WrittenBlob> commit(const std::vector<std::string>& rewrite) override;

 private:
  FileBlobWriter(std::string store, std::string temporary, archive::Fd fd);

  std::string store_;
  std::string temporary_;  // empty once renamed or removed
  archive::Fd fd_;
  Sha256 hash_;
  uint64_t size_ = 0;
  uint64_t begun_ = 0;  // bytes that the kernel was asked to write out
};

// Makes the names of committed blobs durable.
Status sync_blobs(const std::string& store);

// The folder of a store's blobs, kept open so that its path is resolved only once. Thread-safe.
class BlobFolder {
 public:
  // kNotFound: there is no such folder.
  static Result<BlobFolder> open(const std::string& store);

  // Errors are those of archive::BlobStore::open.
  [[nodiscard]] Result<std::unique_ptr<archive::BlobReader>> open_blob(
      const std::string& digest) const;

 private:
  BlobFolder(std::string store, archive::Fd fd) : store_(std::move(store)), fd_(std::move(fd)) {}

  std::string store_;
  archive::Fd fd_;
};

// Looks the blob up by its path, without a BlobFolder. Errors are those of
// archive::BlobStore::size_of.
Result<uint64_t> blob_size(const std::string& store, const std::string& digest);

}  // namespace compilecache::store
