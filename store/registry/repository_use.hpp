#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "store/registry/registry_client.hpp"

// A repository's real content, whatever it claims: for the registry's administrator.
//
//   RegistryClient client({.host = host, .repository = "ml/llama", .tokens = tokens});
//   const auto use = read_use(client);
//   if (use && !needed && !use->unneeded_since) mark_unneeded(client, clock.wall());
//   ...                                              // a while later
//   empty_repository(client);
//
// Sizes are the registry's own, of the blobs that are there, since a manifest may state any. A blob
// that no tag reaches is not seen: it is garbage, which collection frees.

namespace compilecache::store {

// Names of all repositories. Needs the right registry:catalog:*, and a client for any repository.
Result<std::vector<std::string>> list_repositories(RegistryClient& client);

struct RepositoryUse {
  std::string state;  // differs where other tags are there
  size_t tags = 0;    // without the mark
  uint64_t bytes = 0;
  std::vector<std::string> unreadable;  // tags: what they name is damaged or gone
  std::optional<WallTime> unneeded_since;
};
// Nothing for a repository that is not there. `known`: its use before; its bytes stand where
// the tags are the same.
Result<RepositoryUse> read_use(RegistryClient& client, const RepositoryUse* known = nullptr);

// Notes in the repository since when nobody needs it, so that the note outlives its author.
Status mark_unneeded(RegistryClient& client, WallTime since);
Status mark_needed(RegistryClient& client);

// Deletes all tags with what they name. How many were deleted; an error hides no other tag.
Result<size_t> empty_repository(RegistryClient& client);

struct SavedContent {
  uint64_t bytes = 0;                                   // manifest, config and layers
  std::vector<std::pair<std::string, uint64_t>> blobs;  // digests and sizes, the manifest last
};
// The existing blobs of a save. kNotFound: the manifest, or a blob that it names, is missing;
// kCorrupt: the content under the manifest's digest is something else.
Result<SavedContent> find_save(RegistryClient& client, const std::string& manifest);

}  // namespace compilecache::store
