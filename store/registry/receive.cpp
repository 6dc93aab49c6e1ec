#include <optional>

#include "archive/format.hpp"
#include "store/checked_blob.hpp"
#include "store/registry/registry_store.hpp"
#include "store/registry/upload.hpp"

namespace compilecache::store {
namespace {

// A blob of another store as the body of an upload, which ends before its last bytes if they are
// wrong.
class BlobSource : public http::BodySource {
 public:
  BlobSource(const archive::Descriptor& blob, const archive::BlobReader& from)
      : blob_(blob), checked_(blob, from) {}

  [[nodiscard]] uint64_t size() const override { return blob_.size; }
  Status read_at(std::span<uint8_t> bytes, uint64_t offset) override {
    auto read = checked_.read_at(bytes, offset);
    if (!read) failure_ = read.error();
    return read;
  }
  // Why it could not be read, which is no fault of the registry's.
  [[nodiscard]] const std::optional<Error>& failure() const { return failure_; }

 private:
  const archive::Descriptor& blob_;
  CheckedBlob checked_;
  std::optional<Error> failure_;
};

}  // namespace

Status RegistryStore::receive(const archive::Descriptor& blob, const archive::BlobReader& from) {
  if (blob.media_type == archive::kManifestMediaType) return Store::receive(blob, from);
  BlobSource source(blob, from);
  const auto pushed = push_blob(client_, blob.digest, source);
  if (source.failure()) return unexpected(*source.failure());
  if (!pushed) return pushed;
  const MutexLock lock(mutex_);
  blobs_.insert(blob.digest);
  return {};
}

}  // namespace compilecache::store
