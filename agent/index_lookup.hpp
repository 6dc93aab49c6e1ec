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

// The key that a pod of this configuration has on `node`. kUnavailable: it requests a GPU and
// nobody has noted the node's product yet. CPU features and driver versions are only known to the
// operator; archives that have them in their key are not found without it, which is the safe side.
Result<api::ArchiveKey> local_key(const api::AgentConfig& config, store::Store& store,
                                  const std::string& node);

// This machine's, as Kubernetes names architectures (kubernetes.io/arch, Go's GOARCH).
std::string architecture();

struct IndexMatch {
  store::IndexEntry entry;
  api::ArchiveKey key;  // the archive's
  api::Match match = api::Match::kNone;
};
// The archive of exactly that key, else (if allowed) the one saved last among those that differ
// only in their image.
std::optional<IndexMatch> find_in_index(const store::Index& index, const api::ArchiveKey& key,
                                        bool compatible_too);

// All that the index names and the store has. What cannot be read is left out and logged.
std::vector<api::FoundArchive> archives_in_index(store::Store& store);

// `compile_seconds` 0: not known.
archive::Annotations index_annotations(const std::string& archive, int64_t generation,
                                       const std::string& saved_at, const api::ArchiveKey& key,
                                       double compile_seconds = 0);

}  // namespace compilecache::agent
