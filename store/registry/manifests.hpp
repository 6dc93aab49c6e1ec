#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "store/registry/registry_client.hpp"

// Manifests in a registry.

namespace compilecache::store {

// What registries take at least (the distribution specification).
inline constexpr size_t kMostManifestBytes = 4U << 20;

inline constexpr char kIndexMediaType[] = "application/vnd.oci.image.index.v1+json";
// What OCI puts where nothing is to be said.
inline constexpr char kEmptyMediaType[] = "application/vnd.oci.empty.v1+json";
inline constexpr char kEmpty[] = "{}";

// A manifest's description of itself. Pure.
struct ManifestFacts {
  std::string artifact_type;
  uint64_t generation = 0;                              // 0: it has none
  std::vector<std::pair<std::string, uint64_t>> blobs;  // digests and sizes: config and layers
};
Result<ManifestFacts> manifest_facts(const std::string& text);

// "g7-0123456789ab": never given twice, so nothing is ever moved. Pure.
std::string tag_of(uint64_t generation, const std::string& digest);
bool is_our_tag(const std::string& tag);

// By digest or tag. The bytes are not checked. kNotFound: there is none.
enum class Tries { kOne, kSome };
Reply<std::string> get_manifest(RegistryClient& client, const std::string& reference,
                                Tries tries = Tries::kSome);

struct ManifestHead {
  uint64_t size = 0;   // 0: the registry does not say
  std::string digest;  // likewise empty
};
Reply<ManifestHead> head_manifest(RegistryClient& client, const std::string& reference);

// Under that digest or tag.
Reply<void> put_manifest(RegistryClient& client, const std::string& reference,
                         const std::string& text);
Reply<void> put_index(RegistryClient& client, const std::string& reference,
                      const std::string& text);

// By digest, with all its tags. 404: there is none; 405 and others: the registry lets nobody.
Reply<void> delete_manifest(RegistryClient& client, const std::string& digest);

}  // namespace compilecache::store
