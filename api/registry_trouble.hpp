#pragma once

#include "api/words.hpp"

// Why a registry cannot be used, as an agent sees it. Reports and logs have these words
// (docs/troubleshoot/reasons.md); a sweep Job's becomes the reason of the condition StorageReady.

namespace compilecache::api {

enum class RegistryTrouble {
  kUnauthorized,     // it refuses who we are, or what we may do
  kCertificate,      // nobody whom we trust has signed its certificate, or it is another host's
  kMissing,          // it has no such repository, and makes none
  kFull,             // no room, or over a quota
  kUnreachable,      // no answer, or one that is no registry's
  kSecretMissing,    // the Secret that the CompileCache names is not there
  kSecretWrongType,  // … has no .dockerconfigjson
  kSecretUnusable,   // … cannot be read, has no entry for the host, or names a helper program
  kCaMissing,        // the ConfigMap that the CompileCache names is not there, or has no ca.crt
  kCaUnusable,       // … and no certificates in it
};
template <>
inline constexpr auto kWords<RegistryTrouble> =
    std::to_array<Word<RegistryTrouble>>({{RegistryTrouble::kUnauthorized, "registry_unauthorized"},
                                          {RegistryTrouble::kCertificate, "registry_certificate"},
                                          {RegistryTrouble::kMissing, "registry_missing"},
                                          {RegistryTrouble::kFull, "registry_full"},
                                          {RegistryTrouble::kUnreachable, "registry_unreachable"},
                                          {RegistryTrouble::kSecretMissing, "secret_missing"},
                                          {RegistryTrouble::kSecretWrongType, "secret_wrong_type"},
                                          {RegistryTrouble::kSecretUnusable, "secret_unusable"},
                                          {RegistryTrouble::kCaMissing, "ca_missing"},
                                          {RegistryTrouble::kCaUnusable, "ca_unusable"}});

}  // namespace compilecache::api
