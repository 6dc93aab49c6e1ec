#pragma once

#include <string>
#include <vector>

#include "store/registry/registry_client.hpp"

namespace compilecache::store {

// What others attach to a manifest: signatures, attestations, SBOMs. Where a registry has no
// referrers of its own they are found by tags made of the manifest's digest: an index under
// "sha256-HEX" (OCI distribution 1.1, "Referrers Tag Schema"), and cosign's before 3.0, a manifest
// under "sha256-HEX.sig", ".att" or ".sbom". A registry with referrers deletes them with the
// manifest.

// The four tags. Pure.
std::vector<std::string> attached_tags(const std::string& digest);

// Deletes what has these tags, and what such an index names, when the manifest is gone: nobody asks
// for it any more. What cannot be read or deleted stays, is logged, and harms nothing.
void remove_attached(RegistryClient& client, const std::string& digest);

}  // namespace compilecache::store
