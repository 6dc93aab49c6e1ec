#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "archive/blob_store.hpp"
#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/mutex.hpp"
#include "store/offline_index.hpp"
#include "store/store.hpp"
#include "store/upkeep.hpp"

namespace compilecache::store {

// A store in this process's memory, for tests. They need no disk, and can do to blobs whatever may
// happen to them on a disk.
//
//   MemoryStore store(clock);
//   store.prepare(owner, false);
//   auto saved = archive::write_archive(store, request);
//   store.put(saved->archive.config, "not what it was");    // a damaged blob
//   EXPECT_EQ(archive::verify(store, saved->archive.manifest).error().code, ErrorCode::kCorrupt);
//
// It accepts and refuses what a DirectoryStore does. A writer that is never committed leaves
// nothing, so there are no incomplete blobs to remove. Thread-safe.
class MemoryStore : public Store, public OfflineIndex, public Upkeep {
 public:
  // The clock sets the blobs' times, and must outlive the store.
  explicit MemoryStore(const Clock& clock, uint64_t carried_up_to = 0)
      : clock_(clock), carried_up_to_(carried_up_to) {}

  // Stores these bytes under that name, whether they match it or not.
  void put(const std::string& digest, std::string content);
  // Removes and returns the blob; none: there is no such blob.
  std::optional<std::string> take(const std::string& digest);
  // Replaces the text of the index.
  void put_index(std::string text);

  [[nodiscard]] Result<std::unique_ptr<archive::BlobReader>> open(
      const archive::Descriptor& blob) const override;
  [[nodiscard]] Result<uint64_t> size_of(const std::string& digest) const override;
  Result<std::unique_ptr<archive::BlobWriter>> create(const std::string& media_type) override;
  Status sync() override;
  [[nodiscard]] std::string describe() const override { return "memory"; }
  [[nodiscard]] uint64_t carried_up_to() const override { return carried_up_to_; }

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
  class Writer;

  struct Blob {
    // Shared with readers, which can go on reading a deleted blob, as on a disk.
    std::shared_ptr<const std::string> content;
    WallTime modified{};
  };

  // kIo: the store is not prepared yet.
  [[nodiscard]] Status check_prepared() const REQUIRES(mutex_);
  Result<archive::WrittenBlob> commit(std::string content, const std::vector<std::string>& rewrite);

  const Clock& clock_;
  const uint64_t carried_up_to_;
  mutable Mutex mutex_;
  std::optional<StoreOwner> owner_ GUARDED_BY(mutex_);
  std::map<std::string, Blob> blobs_ GUARDED_BY(mutex_);  // by digest
  std::string index_ GUARDED_BY(mutex_);                  // the text of index.json
  std::map<std::string, std::string> products_ GUARDED_BY(mutex_);
};

}  // namespace compilecache::store
