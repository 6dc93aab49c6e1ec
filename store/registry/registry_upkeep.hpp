#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "store/registry/registry_client.hpp"
#include "store/upkeep.hpp"

namespace compilecache::store {

// Maintains a repository, with the caller's credentials.
//
// Only manifests can be deleted, by digest; their blobs are the registry's to collect, and where it
// refuses to delete at all, that is logged once and harms nothing. It lists the archives
// under their own tags (tag_of()), with their blobs; an archive that somebody gave a tag of their
// own is kept. A tag that the registry answers for with 500 is skipped, with a warning: what it
// names is kept. The owner's marker is a small manifest of its own, with the tag
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
  // Nothing for a repository that is not there yet. A blob's time is when its archive was saved.
  [[nodiscard]] Result<std::vector<StoredBlob>> list() const override;
  // Each save that has its own tag, named by its manifest.
  [[nodiscard]] Result<Index> archives() const override;
  // Registries forget uploads that were given up by themselves.
  Result<SweepCounts> remove_incomplete(std::chrono::milliseconds older_than,
                                        WallTime now) override;
  // With what is attached to them (attached.hpp). Freed bytes are those of the manifests and of the
  // blobs that no remaining manifest names; the registry frees them when it is collected. Other
  // artifacts are left alone, and count as missing.
  Result<SweepCounts> remove(const std::vector<std::string>& digests) override;

  // All tags of all owners. None for a repository that is not there yet.
  [[nodiscard]] Result<std::vector<std::string>> tags() const;

 private:
  // kUnavailable: the registry did not send all of them.
  [[nodiscard]] Result<std::vector<std::string>> all_tags() const;
  Status write_owner(const StoreOwner& owner);
  [[nodiscard]] uint64_t unnamed_bytes(std::map<std::string, uint64_t> blobs) const;

  RegistryClient& client_;
};

}  // namespace compilecache::store
