#pragma once

#include <cstdint>
#include <span>

#include "archive/blob_store.hpp"
#include "base/error.hpp"
#include "base/sha256.hpp"

namespace compilecache::store {

// Reads a blob in order and checks it. Its last bytes are handed over only if all of them match the
// digest, so that a copy that is streamed elsewhere cannot finish with wrong ones.
//
//   CheckedBlob checked(blob, *reader);
//   for (uint64_t at = 0; at < blob.size; at += piece.size()) {
//     piece = piece.first(std::min<uint64_t>(piece.size(), blob.size - at));
//     if (auto read = checked.read_at(piece, at); !read) return read;
//   }
//
// One thread. Both must outlive it.
class CheckedBlob {
 public:
  CheckedBlob(const archive::Descriptor& blob, const archive::BlobReader& reader)
      : blob_(blob), reader_(reader) {}

  // Fills `bytes`. `offset` is where the last call ended, or 0 to begin again. kCorrupt: wrong
  // bytes, or too few; otherwise the reader's errors.
  Status read_at(std::span<uint8_t> bytes, uint64_t offset);

 private:
  [[nodiscard]] Error corrupt(const char* why) const;

  const archive::Descriptor& blob_;
  const archive::BlobReader& reader_;
  Sha256 hash_;
  uint64_t hashed_ = 0;
};

// Reads all of it. Errors as above.
Status check_blob(const archive::Descriptor& blob, const archive::BlobReader& reader);

}  // namespace compilecache::store
