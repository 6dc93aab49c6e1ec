#include "store/store.hpp"

#include <algorithm>
#include <vector>

#include "store/checked_blob.hpp"

namespace compilecache::store {

Status Store::receive(const archive::Descriptor& blob, const archive::BlobReader& from) {
  auto writer = create(blob.media_type);
  if (!writer) return unexpected(writer.error());
  CheckedBlob checked(blob, from);
  std::vector<uint8_t> chunk(256U << 10);
  for (uint64_t at = 0; at < blob.size;) {
    const auto piece = std::span(chunk).first(std::min<uint64_t>(chunk.size(), blob.size - at));
    if (auto read = checked.read_at(piece, at); !read) return read;
    if (auto written = (*writer)->write(piece); !written) return written;
    at += piece.size();
  }
  if (auto committed = (*writer)->commit({blob.digest}); !committed)
    return unexpected(committed.error());
  return {};
}

}  // namespace compilecache::store
