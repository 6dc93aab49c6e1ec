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
struct IndexWish {
  api::ArchiveKey key;          // local_key(); which CPU does not count
  bool compatible_too = false;  // archives that differ only in the image
  std::string host_cpu;         // api::cpu_fit()
  bool may_prove = true;        // archives of which nobody knows for which CPUs they are
};
// Finds the archive of exactly that key that fits the host best, else the one saved last among the
// compatible ones.
std::optional<IndexMatch> find_in_index(const store::Index& index, const IndexWish& wish);
// Finds the archive of that key and no other.
std::optional<IndexMatch> find_of_key(const store::Index& index, const api::ArchiveKey& key);
// The reason, where it found none: "no_archive", "cpu_mismatch", "cpu_unknown".
std::string why_not_found(const store::Index& index, const IndexWish& wish);

// The report to the operator about an archive in a store.
api::FoundArchive found_archive(const store::IndexEntry& entry, const archive::ArchiveInfo& info);

// Whether an archive's source is lost: a retry does not help then.
bool is_lost(const Error& error);

// All saves that the store has, by its index or, of a registry, by its tags, as sort_entries()
// sorts them. An error: they are unknown.
Result<std::vector<store::IndexEntry>> saves_there(store::Store& store);
// The content of these. Those that the store has lost are left out and logged. An error: it is
// unknown.
Result<std::vector<api::FoundArchive>> archives_there(
    store::Store& store, const std::vector<store::IndexEntry>& entries);

// The annotations of an archive's entry in the index. `compile_seconds` is 0 where it is not known.
archive::Annotations index_annotations(const std::string& archive, int64_t generation,
                                       const std::string& saved_at, const api::ArchiveKey& key,
                                       double compile_seconds = 0);

}  // namespace compilecache::agent
