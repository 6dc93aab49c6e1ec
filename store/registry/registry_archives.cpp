#include <nlohmann/json.hpp>

#include "archive/format.hpp"
#include "base/checked_json.hpp"
#include "base/sha256.hpp"
#include "store/registry/manifests.hpp"
#include "store/registry/registry_upkeep.hpp"

// Which archives a repository has, by what their manifests say of themselves.

namespace compilecache::store {
namespace {

constexpr size_t kMostProblems = 5;

// Nothing: no archive, or one that nobody can name.
std::optional<IndexEntry> entry_of(const std::string& manifest) {
  const auto facts = manifest_facts(manifest);
  if (!facts || facts->artifact_type != archive::kArtifactType) return std::nullopt;
  IndexEntry entry{"sha256:" + sha256_hex(manifest), manifest.size(), {}};
  const auto json = parse_json(manifest, "the manifest");
  if (!json) return std::nullopt;
  const auto annotations = json->find("annotations");
  if (annotations == json->end() || !annotations->is_object()) return std::nullopt;
  for (const auto& [name, value] : annotations->items()) {
    if (value.is_string()) entry.annotations[name] = value.get<std::string>();
  }
  if (entry.name().empty() || entry.generation() == 0) return std::nullopt;
  return entry;
}

}  // namespace

Result<Index> RegistryUpkeep::archives() const {
  const auto all = all_tags();
  if (!all) return unexpected(all.error());
  Index index;
  for (const std::string& tag : *all) {
    if (!is_our_tag(tag)) continue;
    const auto manifest = get_manifest(client_, tag);
    if (!manifest) {
      const Refusal& refusal = manifest.error();
      if (refusal.status == 404) continue;                          // deleted in the meantime
      if (refusal.error.code == ErrorCode::kTooLarge) continue;     // no archive
      if (refusal.status != 500) return unexpected(refusal.error);  // of all of them
      if (index.problems.size() < kMostProblems)
        index.problems.push_back("the tag " + tag +
                                 " cannot be read; repair or delete it: " + refusal.error.message);
      continue;
    }
    if (auto entry = entry_of(*manifest)) index.entries.push_back(std::move(*entry));
  }
  sort_entries(index.entries);
  return index;
}

}  // namespace compilecache::store
