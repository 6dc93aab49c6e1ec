#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"

// Where blobs come from and go to, as the archive format sees it. An archive is blobs that are
// named by their digests; what keeps them (a folder on a volume, memory, a registry) is a kind of
// store, in store/.
//
//   auto blob = store.create(kLayerMediaType);
//   (*blob)->write(bytes);
//   auto written = (*blob)->commit({});      // the store has it, by its digest
//   ...                                      // other blobs
//   store.sync();                            // now all are durable
//
//   auto reader = store.open({kLayerMediaType, written->digest, written->size});
//   (*reader)->read_at(piece, offset);
//
// Errors are kNotFound and kCorrupt only for what the store has, or lacks: a blob that is not there
// and one that is not what its name promises; then Error::digest names it. Everything else is
// another code, so that trouble with what is written never looks like a lost parent.

namespace compilecache::archive {

struct Descriptor {
  std::string media_type;
  std::string digest;
  uint64_t size = 0;
};

// A blob that is read. Nothing is checked against the digest but by who reads.
class BlobReader {
 public:
  virtual ~BlobReader() = default;

  [[nodiscard]] virtual uint64_t size() const = 0;
  // Fills `bytes` with what begins at `offset`. Returns how many there were: fewer only where the
  // blob ends. From any thread, several at a time.
  [[nodiscard]] virtual Result<size_t> read_at(std::span<uint8_t> bytes, uint64_t offset) const = 0;
  // From now on it is read from its beginning to its end, but for a few bytes at the end first: a
  // store may fetch what comes next before it is asked for.
  virtual void expect_sequential_reads() {}
};

struct WrittenBlob {
  std::string digest;
  uint64_t size = 0;
  bool existed = false;  // the store had it already; nothing was kept of the new one
};

// One blob on its way into the store. Destroyed before commit(), it leaves nothing there. Not
// thread-safe.
class BlobWriter {
 public:
  virtual ~BlobWriter() = default;

  virtual Status write(std::span<const uint8_t> bytes) = 0;
  [[nodiscard]] virtual uint64_t size() const = 0;  // of all that was written
  // Puts the blob in its place; to be called once, and last. `rewrite`: digests that are put there
  // even if a blob of that name is there. Any other existing blob that is what its name says is
  // left as it is.
  virtual Result<WrittenBlob> commit(const std::vector<std::string>& rewrite) = 0;
};

// Thread-safe. Must outlive its readers and writers.
class BlobStore {
 public:
  virtual ~BlobStore() = default;

  // Media type and digest say which; the size need not be known (0) and is not held against what is
  // there. kInvalid: not a digest; kNotFound; kCorrupt: what has that name cannot be a blob.
  [[nodiscard]] virtual Result<std::unique_ptr<BlobReader>> open(const Descriptor& blob) const = 0;
  // Without reading it. Errors as open()'s.
  [[nodiscard]] virtual Result<uint64_t> size_of(const std::string& digest) const = 0;
  // The media type is that of the descriptor by which the blob will be named.
  virtual Result<std::unique_ptr<BlobWriter>> create(const std::string& media_type) = 0;
  // Makes the names of all committed blobs durable.
  virtual Status sync() = 0;
  // For people: "/mnt/caches/llama".
  [[nodiscard]] virtual std::string describe() const = 0;
};

// kInvalid unless it is one.
Status check_digest(const std::string& digest);

// A blob that fits into memory, checked against its digest: kCorrupt. kTooLarge above `limit`
// bytes. Errors as BlobStore::open's.
Result<std::string> read_blob(const BlobStore& store, const Descriptor& blob, uint64_t limit);

// kCorrupt when the blob has not the descriptor's size; errors as BlobStore::open's.
Status check_blob_size(const BlobStore& store, const Descriptor& blob);

}  // namespace compilecache::archive
