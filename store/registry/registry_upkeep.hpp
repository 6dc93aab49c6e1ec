#pragma once

#include <set>
#include <string>
#include <vector>

#include "store/registry/registry_client.hpp"
#include "store/upkeep.hpp"

namespace compilecache::store {

// Looks after a repository, with the credentials of whoever does.
//
// Only manifests can be deleted, by digest; their blobs are the registry's to collect, and where it
// refuses to delete at all, that is logged once and harms nothing. What is listed are the archives
// under tags of ours (tag_of()), with their blobs; an archive that somebody gave a tag of their own
// is left out, and so kept. The owner's marker is a small manifest of its own, with the tag
// "compilecache-owner".
class RegistryUpkeep : public Upkeep {
 public:
  // The client must outlive it.
  explicit RegistryUpkeep(RegistryClient& client) : client_(client) {}

  Result<PreparedStore> prepare(const StoreOwner& owner, bool adopt) override;
  [[nodiscard]] Result<StoreOwner> owner() const override;
  // Asks for the API and begins an upload, which is given up. Free bytes: 0, as registries do not
  // say; the time is this machine's.
  Result<StoreProbe> probe() override;
  // Of a repository that is not there yet: nothing. A blob's time is when its archive was saved.
  [[nodiscard]] Result<std::vector<StoredBlob>> list() const override;
  // Of each archive the newest save that has a tag of ours, and is named by its manifest.
  [[nodiscard]] Result<std::vector<IndexEntry>> archives() const override;
  // Registries forget uploads that were given up by themselves.
  Result<SweepCounts> remove_incomplete(std::chrono::milliseconds older_than,
                                        WallTime now) override;
  // With what is attached to them (attached.hpp). Freed bytes are those of the manifests alone.
  // What is no archive of ours is left alone, and counts as missing.
  Result<SweepCounts> remove(const std::vector<std::string>& digests) override;

 private:
  [[nodiscard]] Result<std::vector<std::string>> tags() const;
  Status write_owner(const StoreOwner& owner);

  RegistryClient& client_;
};

}  // namespace compilecache::store
