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
// Destroyed before finish(), it removes its temporary file. Not thread-safe.

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
  // existing blob is left as it is, its times too: blobs never change, only their owner could touch
  // them, and what is deleted is decided by digests, not by age.
  Result<FinishedBlob> finish(const std::vector<std::string>& rewrite = {});

 private:
  BlobWriter(std::string store, std::string temporary, Fd fd);

  std::string store_;
  std::string temporary_;  // empty once renamed or removed
  Fd fd_;
  Sha256 hash_;
  uint64_t size_ = 0;
};

// Makes the names of finished blobs durable.
Status sync_blobs(const std::string& store);

// A blob that fits into memory. Errors as read_manifest's.
Result<std::string> read_blob(const std::string& store, const std::string& digest, uint64_t limit);

// kNotFound when the blob is missing, kCorrupt when it has not this size.
Status check_blob_size(const std::string& store, const std::string& digest, uint64_t size);

}  // namespace compilecache::archive
