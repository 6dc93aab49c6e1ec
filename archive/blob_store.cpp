#include "archive/blob_store.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "archive/format.hpp"
#include "base/sha256.hpp"

namespace compilecache::archive {
namespace {

std::string name_of(const BlobStore& store, const Descriptor& blob) {
  return "blob " + blob.digest + " in " + store.describe();
}

class BlobInMemory : public BlobReader {
 public:
  explicit BlobInMemory(std::string content) : content_(std::move(content)) {}
  [[nodiscard]] uint64_t size() const override { return content_.size(); }
  [[nodiscard]] Result<size_t> read_at(std::span<uint8_t> bytes, uint64_t offset) const override {
    if (offset >= content_.size()) return 0;
    const auto count =
        static_cast<size_t>(std::min<uint64_t>(bytes.size(), content_.size() - offset));
    std::memcpy(bytes.data(), content_.data() + offset, count);
    return count;
  }

 private:
  const std::string content_;
};

}  // namespace

std::unique_ptr<BlobReader> read_from_memory(std::string content) {
  return std::make_unique<BlobInMemory>(std::move(content));
}

Result<std::unique_ptr<BlobReader>> open_blob(const BlobStore& store, const Descriptor& blob) {
  if (!blob.data.empty()) return read_from_memory(blob.data);
  return store.open(blob);
}

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
