#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "archive/fs.hpp"
#include "base/error.hpp"
#include "base/sha256.hpp"

// One blob on its way into the store.
//
//   auto blob = BlobWriter::create(store);
//   blob->write(bytes);
//   auto finished = blob->finish();   // fsync and rename to blobs/sha256/<its hash>
//   ... other blobs ...
//   sync_blobs(store);                // now all are durable
//
// Destroyed before finish(), it removes its temporary file. Errors of what it writes are never
// kNotFound or kCorrupt: these are about what the store has. Not thread-safe.

namespace compilecache::archive {

struct FinishedBlob {
  std::string digest;
  uint64_t size = 0;
  bool existed = false;  // the store had it already; nothing was kept of the new one
};

class BlobWriter {
 public:
  static Result<BlobWriter> create(const std::string& store);
  ~BlobWriter();
  BlobWriter(BlobWriter&&) = default;
  BlobWriter& operator=(BlobWriter&&) = delete;

  Status write(std::span<const uint8_t> bytes);
  [[nodiscard]] uint64_t size() const { return size_; }
  // `rewrite`: digests that are put in place even if a blob of that name is there. Any other
  // existing blob that is what its name says is left as it is, its times too: blobs never change,
  // only their owner could touch them, and what is deleted is decided by digests, not by age.
  Result<FinishedBlob> finish(const std::vector<std::string>& rewrite = {});

 private:
  BlobWriter(std::string store, std::string temporary, Fd fd);

  std::string store_;
  std::string temporary_;  // empty once renamed or removed
  Fd fd_;
  Sha256 hash_;
  uint64_t size_ = 0;
  uint64_t begun_ = 0;  // of size_, on its way to the disk
};

// Makes the names of finished blobs durable.
Status sync_blobs(const std::string& store);

// The folder of a store's blobs, held open, so that its path is walked once.
//
//   auto blobs = BlobFolder::open(store);
//   auto text = blobs->read(digest, 1 << 20);
//
// Thread-safe.
class BlobFolder {
 public:
  // kNotFound: there is none.
  static Result<BlobFolder> open(const std::string& store);

  // Errors as read_manifest's.
  [[nodiscard]] Result<RegularFile> open_blob(const std::string& digest) const;
  // A blob that fits into memory.
  [[nodiscard]] Result<std::string> read(const std::string& digest, uint64_t limit) const;
  [[nodiscard]] const std::string& store() const { return store_; }

 private:
  BlobFolder(std::string store, Fd fd) : store_(std::move(store)), fd_(std::move(fd)) {}

  std::string store_;
  Fd fd_;
};

// kNotFound when the blob is missing, kCorrupt when it has not this size.
Status check_blob_size(const std::string& store, const std::string& digest, uint64_t size);

}  // namespace compilecache::archive
