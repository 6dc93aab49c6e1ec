#pragma once

#include <optional>
#include <string>
#include <vector>

#include "store/registry/registry_client.hpp"

namespace compilecache::store {

// Attachments of others to a manifest: signatures, attestations, SBOMs. The registry lists them
// (GET referrers/DIGEST), or tags made of the manifest's digest lead to them. That is an index
// under "sha256-HEX" where the registry does not know that question (OCI distribution 1.1,
// "Referrers Tag Schema"). Before 3.0 cosign has a manifest under "sha256-HEX.sig", ".att" or
// ".sbom".

// "sha256-HEX.sig". Pure.
std::string signature_tag(const std::string& digest);

// An attached manifest. It matches its digest, and is none of the store's, whatever its
// name.
struct Attached {
  std::string digest, manifest;
};

// The manifest with that tag or digest; nothing where there is none, or another kind.
Result<std::optional<Attached>> attached_at(RegistryClient& client, const std::string& reference);

// The manifests that say of themselves that they are about this one, signatures first, of the first
// 1,000 that are named. One that cannot be read hides no other.
struct Referrers {
  std::vector<Attached> found;
  std::optional<Error> unread;  // why there may be more
};
Referrers referrers_of(RegistryClient& client, const std::string& digest);

// Pushes a manifest with that subject, whose blobs are there. Where the registry does not list
// the subject's referrers, the index does, as the specification asks of clients.
Status attach(RegistryClient& client, const std::string& subject, const std::string& manifest);

// Deletes all attachments after the manifest was deleted: nobody asks for them any more. Those that
// cannot be read or deleted stay, are logged, and harm nothing.
void remove_attached(RegistryClient& client, const std::string& digest);

}  // namespace compilecache::store
