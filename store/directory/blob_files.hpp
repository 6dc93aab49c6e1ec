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

// The blobs of a directory: written to a file beside them, synced and renamed into place, so that
// one that is there under its name is whole.

namespace compilecache::store {

// Its errors are never kNotFound or kCorrupt: these are about what the store has.
class FileBlobWriter : public archive::BlobWriter {
 public:
  static Result<std::unique_ptr<FileBlobWriter>> create(const std::string& store);
  ~FileBlobWriter() override;
  FileBlobWriter(const FileBlobWriter&) = delete;
  FileBlobWriter& operator=(const FileBlobWriter&) = delete;

  Status write(std::span<const uint8_t> bytes) override;
  [[nodiscard]] uint64_t size() const override { return size_; }
  // An existing blob that stays is not touched at all, its times too: blobs never change, only
  // their owner could touch them, and what is deleted is decided by digests, not by age.
  Result<archive::WrittenBlob> commit(const std::vector<std::string>& rewrite) override;

 private:
  FileBlobWriter(std::string store, std::string temporary, archive::Fd fd);

  std::string store_;
  std::string temporary_;  // empty once renamed or removed
  archive::Fd fd_;
  Sha256 hash_;
  uint64_t size_ = 0;
  uint64_t begun_ = 0;  // of size_, on its way to the disk
};

// Makes the names of committed blobs durable.
Status sync_blobs(const std::string& store);

// The folder of a store's blobs, held open, so that its path is walked once. Thread-safe.
class BlobFolder {
 public:
  // kNotFound: there is none.
  static Result<BlobFolder> open(const std::string& store);

  // Errors as archive::BlobStore::open's.
  [[nodiscard]] Result<std::unique_ptr<archive::BlobReader>> open_blob(
      const std::string& digest) const;

 private:
  BlobFolder(std::string store, archive::Fd fd) : store_(std::move(store)), fd_(std::move(fd)) {}

  std::string store_;
  archive::Fd fd_;
};

// By its path, whatever folder is held open. Errors as archive::BlobStore::size_of's.
Result<uint64_t> blob_size(const std::string& store, const std::string& digest);

}  // namespace compilecache::store
