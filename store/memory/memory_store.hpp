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

// A store in this process's memory, for tests: what needs a store runs without a disk, and whatever
// may happen to blobs on a disk can be done to them by hand.
//
//   MemoryStore store(clock);
//   store.prepare(owner, false);
//   auto saved = archive::write_archive(store, request);
//   store.put(saved->archive.config, "not what it was");    // a damaged blob
//   EXPECT_EQ(archive::verify(store, saved->archive.manifest).error().code, ErrorCode::kCorrupt);
//
// It takes and refuses what a DirectoryStore does. What a writer leaves that is never committed is
// gone with it, so there is nothing incomplete to remove. Thread-safe.
class MemoryStore : public Store, public OfflineIndex, public Upkeep {
 public:
  // The clock gives blobs their times, and must outlive the store.
  explicit MemoryStore(const Clock& clock) : clock_(clock) {}

  // Puts these bytes under that name, whatever they are.
  void put(const std::string& digest, std::string content);
  // Takes the blob away; none: there is none.
  std::optional<std::string> take(const std::string& digest);
  // What the index says from now on.
  void put_index(std::string text);

  [[nodiscard]] Result<std::unique_ptr<archive::BlobReader>> open(
      const archive::Descriptor& blob) const override;
  [[nodiscard]] Result<uint64_t> size_of(const std::string& digest) const override;
  Result<std::unique_ptr<archive::BlobWriter>> create(const std::string& media_type) override;
  Status sync() override;
  [[nodiscard]] std::string describe() const override { return "memory"; }

  OfflineIndex* offline_index() override { return this; }
  Upkeep* upkeep() override { return this; }
  [[nodiscard]] Trouble trouble(const Error& error, Use use) const override;

  [[nodiscard]] Index read_index() const override;
  Status write_index(const std::vector<IndexEntry>& entries) override;
  Status update_index(const IndexEntry& entry) override;
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
    // Shared with readers, which go on reading what was deleted meanwhile, as on a disk.
    std::shared_ptr<const std::string> content;
    WallTime modified{};
  };

  // kIo: not prepared yet.
  [[nodiscard]] Status check_prepared() const REQUIRES(mutex_);
  Result<archive::WrittenBlob> commit(std::string content, const std::vector<std::string>& rewrite);

  const Clock& clock_;
  mutable Mutex mutex_;
  std::optional<StoreOwner> owner_ GUARDED_BY(mutex_);
  std::map<std::string, Blob> blobs_ GUARDED_BY(mutex_);  // by digest
  std::string index_ GUARDED_BY(mutex_);                  // as a file has it
  std::map<std::string, std::string> products_ GUARDED_BY(mutex_);
};

}  // namespace compilecache::store
