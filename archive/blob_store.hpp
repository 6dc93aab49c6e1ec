#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"

// The interfaces through which archives are read from and written to a store. An archive is blobs
// that are named by their digests; what keeps them (a folder on a volume, memory, a registry) is a
// kind of store, in store/.
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
// Only two errors are about the content of the store: kNotFound, a blob is missing, and kCorrupt, a
// blob does not match its digest; Error::digest names that blob. All other failures have other
// codes, so that a failed write never looks like a lost parent.

namespace compilecache::archive {

struct Descriptor {
  std::string media_type;
  std::string digest;
  uint64_t size = 0;
  // The blob's content where its manifest has it too and it is what digest and size promise; else
  // empty.
  std::string data = {};
};

// Reads one blob. It does not check the content against the digest: the caller does.
class BlobReader {
 public:
  virtual ~BlobReader() = default;

  [[nodiscard]] virtual uint64_t size() const = 0;
  // Fills `bytes` from `offset` on. Returns how many bytes were read: fewer only at the end of the
  // blob. May be called from several threads at once.
  [[nodiscard]] virtual Result<size_t> read_at(std::span<uint8_t> bytes, uint64_t offset) const = 0;
  // Announces that the blob will be read from its beginning to its end, except for a few bytes at
  // the end that may be read first. The store may then read ahead.
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
  [[nodiscard]] virtual uint64_t size() const = 0;  // of all bytes written so far
  // Puts the blob in its place. Call it once, as the last method. Digests in `rewrite` are written
  // even if a blob of that name exists. Any other existing blob is left as it is if it matches its
  // digest. kAlreadyExists: the store keeps the damaged bytes that it has under a digest in
  // `rewrite`, so only other content can be kept.
  virtual Result<WrittenBlob> commit(const std::vector<std::string>& rewrite) = 0;
};

// Thread-safe. Must outlive its readers and writers.
class BlobStore {
 public:
  virtual ~BlobStore() = default;

  // Media type and digest select the blob; the size may be 0 (unknown) and is not checked.
  // kInvalid: not a digest; kNotFound; kCorrupt: what has that name cannot be a blob.
  [[nodiscard]] virtual Result<std::unique_ptr<BlobReader>> open(const Descriptor& blob) const = 0;
  // Does not read the blob. Errors are those of open().
  [[nodiscard]] virtual Result<uint64_t> size_of(const std::string& digest) const = 0;
  // The media type is that of the descriptor by which the blob will be named.
  virtual Result<std::unique_ptr<BlobWriter>> create(const std::string& media_type) = 0;
  // Makes the names of all committed blobs durable.
  virtual Status sync() = 0;
  // The store's name in messages: "/mnt/caches/llama".
  [[nodiscard]] virtual std::string describe() const = 0;
  // Blobs of up to so many bytes are to be in their archive's manifest too, where a request for
  // each costs more than these bytes there. 0: none.
  [[nodiscard]] virtual uint64_t carried_up_to() const { return 0; }
};

// kInvalid: `digest` is not a digest.
Status check_digest(const std::string& digest);

// Reads a whole blob into memory and checks it against its digest. kCorrupt: it does not match;
// kTooLarge: it has more than `limit` bytes; otherwise the errors of BlobStore::open.
Result<std::string> read_blob(const BlobStore& store, const Descriptor& blob, uint64_t limit);

// A blob that is in memory.
std::unique_ptr<BlobReader> read_from_memory(std::string content);

// Reads what the descriptor has of the blob, else opens it. Errors are those of BlobStore::open.
Result<std::unique_ptr<BlobReader>> open_blob(const BlobStore& store, const Descriptor& blob);

// kCorrupt: the blob does not have the descriptor's size. Otherwise the errors of BlobStore::open.
Status check_blob_size(const BlobStore& store, const Descriptor& blob);

}  // namespace compilecache::archive
