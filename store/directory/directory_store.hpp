#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/mutex.hpp"
#include "store/offline_index.hpp"
#include "store/store.hpp"
#include "store/upkeep.hpp"

namespace compilecache::store {

class BlobFolder;

// A store in a directory on a volume, which any number of processes on any number of nodes may use
// at once. layout.hpp describes its files.
//
//   DirectoryStore store("/mnt/caches/llama");
//   store.prepare(owner, false);
//   auto saved = archive::write_archive(store, request);
//
// The directory is not touched before the first call; after it only the folder of the blobs is kept
// open. Thread-safe.
class DirectoryStore : public Store, public OfflineIndex, public Upkeep {
 public:
  explicit DirectoryStore(std::string path);
  ~DirectoryStore() override;

  [[nodiscard]] const std::string& path() const { return path_; }
  // The path of a blob with this digest, which need not exist.
  [[nodiscard]] std::string blob_path(const std::string& digest) const;

  [[nodiscard]] Result<std::unique_ptr<archive::BlobReader>> open(
      const archive::Descriptor& blob) const override;
  [[nodiscard]] Result<uint64_t> size_of(const std::string& digest) const override;
  Result<std::unique_ptr<archive::BlobWriter>> create(const std::string& media_type) override;
  Status sync() override;
  [[nodiscard]] std::string describe() const override { return path_; }

  OfflineIndex* offline_index() override { return this; }
  Upkeep* upkeep() override { return this; }
  [[nodiscard]] Trouble trouble(const Error& error, Use use) const override;

  [[nodiscard]] Result<Index> read_index() const override;
  Status write_index(const std::vector<IndexEntry>& entries) override;
  Status update_index(const IndexEntry& entry) override;
  Status extend_index(const std::string& expected, const IndexEntry& entry) override;
  Status note_node_product(const std::string& node, const std::string& product) override;
  [[nodiscard]] Result<std::string> node_product(const std::string& node) const override;

  Result<PreparedStore> prepare(const StoreOwner& owner, bool adopt) override;
  [[nodiscard]] Result<StoreOwner> owner() const override;
  Result<StoreProbe> probe() override;
  [[nodiscard]] Result<std::vector<StoredBlob>> list() const override;
  Result<SweepCounts> remove_incomplete(std::chrono::milliseconds older_than,
                                        WallTime now) override;
  Result<SweepCounts> remove(const std::vector<std::string>& digests) override;

 private:
  // Returns the open folder. It is opened now if it is not open, or if the open one is
  // `instead_of`.
  Result<std::shared_ptr<const BlobFolder>> folder(
      const std::shared_ptr<const BlobFolder>& instead_of) const;

  const std::string path_;
  mutable Mutex mutex_;
  mutable std::shared_ptr<const BlobFolder> folder_ GUARDED_BY(mutex_);  // null until needed
};

}  // namespace compilecache::store
