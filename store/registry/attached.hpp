#pragma once

#include <optional>
#include <string>
#include <vector>

#include "store/registry/registry_client.hpp"

namespace compilecache::store {

// What others attach to a manifest: signatures, attestations, SBOMs. It is told by the registry
// (GET referrers/DIGEST), or found by tags made of the manifest's digest: an index under
// "sha256-HEX" where the registry does not know that question (OCI distribution 1.1, "Referrers Tag
// Schema"), and cosign's before 3.0, a manifest under "sha256-HEX.sig", ".att" or ".sbom".

// "sha256-HEX.sig". Pure.
std::string signature_tag(const std::string& digest);

// A manifest that is attached; it is what its digest promises, and none of ours, whatever somebody
// named it.
struct Attached {
  std::string digest, manifest;
};

// What has that tag or digest; nothing where there is none, or what there is is no such manifest.
Result<std::optional<Attached>> attached_at(RegistryClient& client, const std::string& reference);

// The manifests that say of themselves that they are about this one, 64 at most.
Result<std::vector<Attached>> referrers_of(RegistryClient& client, const std::string& digest);

// Pushes a manifest with that subject, whose blobs are there. Where the registry does not tell what
// refers to the subject, the index does, as the specification asks of clients.
Status attach(RegistryClient& client, const std::string& subject, const std::string& manifest);

// Deletes all that is attached, when the manifest is gone: nobody asks for it any more. What cannot
// be read or deleted stays, is logged, and harms nothing.
void remove_attached(RegistryClient& client, const std::string& digest);

}  // namespace compilecache::store
