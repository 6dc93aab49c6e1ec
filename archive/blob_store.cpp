#include "archive/blob_store.hpp"

#include "archive/format.hpp"
#include "base/sha256.hpp"

namespace compilecache::archive {
namespace {

std::string name_of(const BlobStore& store, const Descriptor& blob) {
  return "blob " + blob.digest + " in " + store.describe();
}

}  // namespace

Status check_digest(const std::string& digest) {
  if (is_digest(digest)) return {};
  return fail(ErrorCode::kInvalid,
              "not a digest: \"" + digest.substr(0, 100) + "\" (want sha256: and 64 digits)");
}

Result<std::string> read_blob(const BlobStore& store, const Descriptor& blob, uint64_t limit) {
  auto reader = store.open(blob);
  if (!reader) return unexpected(reader.error());
  const uint64_t size = (*reader)->size();
  const auto failed = [&](ErrorCode code, const std::string& why) {
    return unexpected(Error{code, name_of(store, blob) + why, blob.digest});
  };
  if (size > limit) {
    return failed(ErrorCode::kTooLarge,
                  " has " + std::to_string(size) + " bytes, allowed are " + std::to_string(limit));
  }
  std::string content(static_cast<size_t>(size), '\0');
  auto count = (*reader)->read_at({reinterpret_cast<uint8_t*>(content.data()), content.size()}, 0);
  if (!count) return unexpected(count.error().about(blob.digest));
  content.resize(*count);
  if ("sha256:" + sha256_hex(content) != blob.digest)
    return failed(ErrorCode::kCorrupt, " is not what its name promises: the archive is lost");
  return content;
}

Status check_blob_size(const BlobStore& store, const Descriptor& blob) {
  auto size = store.size_of(blob.digest);
  if (!size) return unexpected(size.error());
  if (*size == blob.size) return {};
  return unexpected(Error{ErrorCode::kCorrupt,
                          name_of(store, blob) + " should have " + std::to_string(blob.size) +
                              " bytes and has " + std::to_string(*size),
                          blob.digest});
}

}  // namespace compilecache::archive
