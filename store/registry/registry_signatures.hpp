#pragma once

#include <string>
#include <vector>

#include "store/registry/registry_client.hpp"
#include "store/signatures.hpp"

namespace compilecache::store {

// Signatures in a repository, as cosign puts them there: under the manifest's tag "sha256-HEX.sig",
// and as a referrer. The registry lists these (GET referrers/DIGEST), or the index with the tag
// "sha256-HEX" where it does not know that question. Each byte is checked by its digest.
class RegistrySignatures : public Signatures {
 public:
  // The client must outlive it.
  explicit RegistrySignatures(RegistryClient& client) : client_(client) {}

  FoundSignatures of(const std::string& manifest) override;
  Status add(const Signature& signature) override;

 private:
  Status add_simple(const Signature& signature);
  Status add_bundle(const Signature& signature);

  RegistryClient& client_;
};

}  // namespace compilecache::store
