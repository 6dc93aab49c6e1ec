#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/agent_api.hpp"
#include "api/agent_config.hpp"
#include "api/archive_key.hpp"
#include "api/outcomes.hpp"
#include "archive/manifest.hpp"
#include "base/error.hpp"
#include "store/index.hpp"
#include "store/store.hpp"

// Finds a pod's archive without the operator: in the index on the volume, with the GPU product that
// savers noted there for the pod's node (devices are not visible in our containers).

namespace compilecache::agent {

// The key that a pod of this configuration has on `node`. kUnavailable where it requests a GPU and
// nobody has noted the node's product yet. Only the operator knows CPU features and driver
// versions; without it archives with those in their key are not found, which is safe.
Result<api::ArchiveKey> local_key(const api::AgentConfig& config, store::Store& store,
                                  const std::string& node);

// This machine's architecture, as Kubernetes names it (kubernetes.io/arch, Go's GOARCH).
std::string architecture();

struct IndexMatch {
  store::IndexEntry entry;
  api::ArchiveKey key;  // the archive's
  api::Match match = api::Match::kNone;
};
// Finds the archive of exactly that key, else (if allowed) the one saved last among those that
// differ only in the image.
std::optional<IndexMatch> find_in_index(const store::Index& index, const api::ArchiveKey& key,
                                        bool compatible_too);

// What the operator is told of an archive that is in a store.
api::FoundArchive found_archive(const store::IndexEntry& entry, const archive::ArchiveInfo& info);

// Whether what an archive was to be read of is lost: trying again does not mend that.
bool is_lost(const Error& error);

// All archives that the store has, by its index or, of a registry, by its tags. Those that it has
// lost are left out and logged. Errors: it cannot be told which there are, or what is in one.
Result<std::vector<api::FoundArchive>> archives_there(store::Store& store);

// The annotations of an archive's entry in the index. `compile_seconds` is 0 where it is not known.
archive::Annotations index_annotations(const std::string& archive, int64_t generation,
                                       const std::string& saved_at, const api::ArchiveKey& key,
                                       double compile_seconds = 0);

}  // namespace compilecache::agent
