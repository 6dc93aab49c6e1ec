#include "store/checked_blob.hpp"

#include <algorithm>
#include <vector>

namespace compilecache::store {

Error CheckedBlob::corrupt(const char* why) const {
  return {ErrorCode::kCorrupt, "blob " + blob_.digest + why, blob_.digest};
}

Status CheckedBlob::read_at(std::span<uint8_t> bytes, uint64_t offset) {
  if (offset == 0) {
    hash_ = Sha256();
    hashed_ = 0;
  }
  if (offset != hashed_) return unexpected(corrupt(" was not read in order: a bug"));
  for (size_t filled = 0; filled < bytes.size();) {
    const auto count = reader_.read_at(bytes.subspan(filled), offset + filled);
    if (!count) return unexpected(count.error().about(blob_.digest));
    if (*count == 0) return unexpected(corrupt(" is cut off"));
    filled += *count;
  }
  hash_.update(bytes);
  hashed_ += bytes.size();
  if (hashed_ < blob_.size) return {};
  if ("sha256:" + hash_.finish_hex() == blob_.digest) return {};
  return unexpected(corrupt(" is not what its name promises"));
}

Status check_blob(const archive::Descriptor& blob, const archive::BlobReader& reader) {
  CheckedBlob checked(blob, reader);
  std::vector<uint8_t> chunk(256U << 10);
  for (uint64_t at = 0; at < blob.size;) {
    const auto piece = std::span(chunk).first(std::min<uint64_t>(chunk.size(), blob.size - at));
    if (auto read = checked.read_at(piece, at); !read) return read;
    at += piece.size();
  }
  return {};
}

}  // namespace compilecache::store
