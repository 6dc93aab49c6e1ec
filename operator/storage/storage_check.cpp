#include "operator/storage/storage_check.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <nlohmann/json.hpp>

#include "api/repository_name.hpp"
#include "base/strings.hpp"
#include "kube/json.hpp"

namespace compilecache::controller {
namespace {

using nlohmann::json;

bool has_mode(const ClaimView& claim, const char* mode) {
  return std::find(claim.access_modes.begin(), claim.access_modes.end(), mode) !=
         claim.access_modes.end();
}

// Each once; a claim may repeat them as often as a megabyte holds.
std::vector<std::string> access_modes_at(const json& object, const json::json_pointer& where) {
  constexpr size_t kMost = 8;  // Kubernetes has four
  std::vector<std::string> modes;
  if (!object.contains(where) || !object.at(where).is_array()) return modes;
  for (const json& value : object.at(where)) {
    if (!value.is_string() || modes.size() == kMost) continue;
    std::string mode(first_bytes(value.get_ref<const std::string&>(), 64));
    if (std::find(modes.begin(), modes.end(), mode) == modes.end()) modes.push_back(mode);
  }
  return modes;
}

// Kubernetes' longest name: what is longer is none.
std::string name_at(const json& object, std::initializer_list<const char*> path) {
  return std::string(first_bytes(kube::string_at(object, path), 253));
}

StorageVerdict refuse(const char* reason, std::string message) {
  return {"False", reason, std::move(message), false, true};
}

// What speaks against this claim whatever is on the volume; nothing when all is well.
std::optional<StorageVerdict> check_claim(const api::CompileCacheSpec::Storage& storage,
                                          const StorageFacts& facts) {
  const std::string name = "PersistentVolumeClaim \"" + storage.claim_name + "\"";
  if (!facts.claim) {
    return refuse("ClaimNotFound",
                  name + " does not exist in this namespace: create it, or name another in " +
                      "spec.storage.claimName");
  }
  const ClaimView& claim = *facts.claim;
  if (claim.deleting) {
    return refuse("ClaimDeleting", name + " is being deleted: recreate it, or name another in " +
                                       "spec.storage.claimName");
  }
  if (claim.phase == "Lost") {
    return refuse("ClaimLost",
                  name + " has lost its volume (phase Lost): restore the PersistentVolume, or " +
                      "delete the claim and recreate it");
  }
  const bool shared = has_mode(claim, "ReadWriteMany");
  if (!shared && has_mode(claim, "ReadWriteOncePod")) {
    return refuse("ReadWriteOncePod",
                  name + " can be mounted by one pod only (ReadWriteOncePod), so a second pod " +
                      "would never start: use a claim with ReadWriteMany");
  }
  if (!shared && !has_mode(claim, "ReadWriteOnce")) {
    return refuse("ReadOnlyClaim",
                  name + " cannot be written to (access modes: " + join(claim.access_modes, ", ") +
                      "): use a claim with ReadWriteMany");
  }
  if (!shared && !storage.allow_read_write_once) {
    return refuse("ReadWriteOnce",
                  name +
                      " can be mounted on one node only (ReadWriteOnce), so pods on other nodes " +
                      "would never start: use a claim with ReadWriteMany, or set " +
                      "spec.storage.allowReadWriteOnce where all pods run on one node");
  }
  if (facts.volume && facts.volume->has_node_affinity && !storage.allow_node_affinity) {
    return refuse(
        "VolumeHasNodeAffinity",
        "PersistentVolume \"" + claim.volume_name + "\" of " + name +
            " can be mounted on some nodes only " +
            "(node affinity), which would tie pods to them: use a volume without it, or set " +
            "spec.storage.allowNodeAffinity");
  }
  return std::nullopt;
}

StorageVerdict waiting(const char* reason, std::string message) {
  return {"Unknown", reason, std::move(message), true, false};
}

StorageVerdict unusable(const char* reason, std::string message) {
  return {"False", reason, std::move(message), true, false};
}

StorageVerdict cannot_prepare(const StorageFacts& facts) {
  return unusable("CannotPrepare", "the store cannot be prepared: " + facts.job_trouble);
}

// Pods go on loading and saving, so it is ready.
StorageVerdict not_swept(const StorageFacts& facts) {
  return {"True", kNotSwept,
          "pods load and save, but the store is not swept: " + facts.sweep_trouble +
              "; it is tried again after pauses that grow to ten minutes, at the latest with the "
              "next sweep (spec.retention.sweepInterval)",
          true, false};
}

StorageVerdict check_volume(const api::CompileCacheSpec::Storage& storage,
                            const StorageFacts& facts) {
  if (auto refused = check_claim(storage, facts)) return *refused;
  const ClaimView& claim = *facts.claim;
  if (!facts.storage_error.empty()) {
    return unusable("StoreUnusable", "the volume of PersistentVolumeClaim \"" + storage.claim_name +
                                         "\" cannot be used: " + facts.storage_error);
  }
  if (!facts.job_trouble.empty()) return cannot_prepare(facts);
  if (claim.phase != "Bound") {
    return waiting("ClaimNotBound",
                   "PersistentVolumeClaim \"" + storage.claim_name + "\" is not bound yet (phase " +
                       (claim.phase.empty() ? "unknown" : claim.phase) +
                       "); the Job that prepares the store is a pod that binds it where its "
                       "storage class waits for one: see kubectl describe pvc " +
                       storage.claim_name);
  }
  if (!facts.volume) {
    return waiting(api::kVolumeUnknownReason,
                   "reading the PersistentVolume \"" + claim.volume_name + "\"");
  }
  if (!facts.prepared) {
    return waiting(api::kPreparingReason, "a Job is preparing the store and trying it");
  }
  if (!facts.sweep_trouble.empty()) return not_swept(facts);
  return {"True", "Ready", "the store is prepared and the volume does what is needed", true, false};
}

// The Job's finding, and the remedy. Objects are those that spec.storage
// names.
struct TroubleText {
  api::RegistryTrouble trouble;
  std::string_view reason, remedy;
};
using enum api::RegistryTrouble;
constexpr std::array kTroubles{
    TroubleText{kUnauthorized, "Unauthorized",
                "let the account in spec.storage.registry.secretName push, pull and delete there"},
    TroubleText{kCertificate, "CertificateUnknown",
                "put the authority that signed its certificate into ca.crt of a ConfigMap and name "
                "that in spec.storage.registry.caConfigMapName"},
    TroubleText{kMissing, "RepositoryNotFound",
                "create the repository or project, or let the registry create what is pushed"},
    TroubleText{kFull, "RegistryFull", "give it more room, or raise the quota"},
    TroubleText{kUnreachable, "RegistryUnreachable",
                "see that it runs, and that NetworkPolicies and proxies let pods of this namespace "
                "reach it"},
    TroubleText{kSecretMissing, "SecretNotFound",
                "create the Secret that spec.storage.registry.secretName names (kubectl create "
                "secret docker-registry)"},
    TroubleText{kSecretWrongType, "SecretWrongType",
                "recreate the Secret with the type kubernetes.io/dockerconfigjson (kubectl create "
                "secret docker-registry)"},
    TroubleText{kSecretUnusable, "SecretUnusable",
                "give the Secret an entry with user and password, or a token, for that host"},
    TroubleText{kCaMissing, "CaNotFound",
                "create the ConfigMap that spec.storage.registry.caConfigMapName names, with the "
                "key ca.crt"},
    TroubleText{kCaUnusable, "CaUnusable",
                "put certificates in PEM into ca.crt of the ConfigMap that "
                "spec.storage.registry.caConfigMapName names"}};

constexpr std::string_view kOwnRemedy =
    "see the registry's pod in the operator's namespace (kubectl logs "
    "deploy/compilecache-registry)";
constexpr std::string_view kOwnFullRemedy =
    "give the claim compilecache-registry in the operator's namespace more room, or lower "
    "registry.namespaceShare in the operator's settings; ";

StorageVerdict told_by_the_job(const api::RegistryRef& registry, const StorageFacts& facts) {
  const std::string what = "the registry at " + registry.host + " cannot be used for " +
                           registry.repository + ": " + facts.storage_error;
  for (const TroubleText& text : kTroubles) {
    if (text.trouble != facts.storage_trouble) continue;
    std::string remedy(registry.own ? kOwnRemedy : text.remedy);
    // Pods continue to load the existing archives, whatever their origin.
    if (registry.own && text.trouble == kFull)
      return {"True", kRegistryFull, what + "; " + remedy.insert(0, kOwnFullRemedy), true, false};
    return unusable(text.reason.data(), what + "; " + remedy);
  }
  return unusable("StoreUnusable", what);
}

StorageVerdict check_registry(const api::CompileCacheSpec::Storage& storage,
                              const StorageFacts& facts) {
  const api::RegistryRef* registry = facts.store ? facts.store->registry() : nullptr;
  if (registry == nullptr) {
    return storage.registry
               ? refuse("InvalidRepository", "spec.storage.registry.repository cannot be used")
               : refuse("RegistryNotInstalled",
                        "spec.storage names neither a claim nor a registry, and none was installed "
                        "with the operator: install config/components/registry, or name one of the "
                        "two");
  }
  const size_t length = registry->repository.size();
  if (length > api::kLongestRepositoryPath) {
    return refuse("InvalidRepository", "the repository would be " + registry->repository + ", " +
                                           std::to_string(length) + " characters of at most " +
                                           std::to_string(api::kLongestRepositoryPath) +
                                           ": shorten spec.storage.registry.repository");
  }
  if (!facts.storage_error.empty()) return told_by_the_job(*registry, facts);
  if (!facts.job_trouble.empty()) return cannot_prepare(facts);
  if (!facts.prepared) {
    return waiting(api::kPreparingReason, "a Job is preparing the store and trying the registry");
  }
  // Pods go on loading, so it is ready.
  if (!facts.over_quota.empty()) return {"True", "QuotaExceeded", facts.over_quota, true, false};
  if (facts.own_registry && facts.own_registry->reason == kRegistryFull) {
    return {"True", kRegistryFull, facts.own_registry->message, true, false};
  }
  if (!facts.sweep_trouble.empty()) return not_swept(facts);
  return {"True", "Ready", "the store is prepared and the registry does what is needed", true,
          false};
}

}  // namespace

Result<ClaimView> parse_claim(const json& object) {
  ClaimView claim;
  claim.ns = kube::string_at(object, {"metadata", "namespace"});
  claim.name = kube::string_at(object, {"metadata", "name"});
  claim.uid = kube::string_at(object, {"metadata", "uid"});
  claim.phase = kube::string_at(object, {"status", "phase"});
  claim.access_modes = access_modes_at(object, "/status/accessModes"_json_pointer);
  if (claim.access_modes.empty()) {
    claim.access_modes = access_modes_at(object, "/spec/accessModes"_json_pointer);
  }
  claim.volume_name = name_at(object, {"spec", "volumeName"});
  claim.storage_class = name_at(object, {"spec", "storageClassName"});
  claim.deleting = object.contains("/metadata/deletionTimestamp"_json_pointer);
  return claim;
}

const kube::Fields& claim_fields() {
  static const kube::Fields kFields =
      kube::Fields{"/metadata/uid",         "/metadata/deletionTimestamp", "/status/phase",
                   "/status/accessModes",   "/spec/accessModes",           "/spec/volumeName",
                   "/spec/storageClassName"}
          .with_elements(64);
  return kFields;
}

VolumeView parse_volume(const json& object) {
  return {object.contains("/spec/nodeAffinity/required"_json_pointer)};
}

StorageVerdict check_storage(const std::optional<api::CompileCacheSpec::Storage>& storage,
                             const StorageFacts& facts) {
  if (!storage) {
    return {"True", "NotUsed",
            "no archives are kept, as spec.storage is not set: pods share what they compile by "
            "spec.remoteCache alone",
            false, false};
  }
  return storage->claim_name.empty() ? check_registry(*storage, facts)
                                     : check_volume(*storage, facts);
}

bool is_fault(std::string_view reason) {
  return reason == "StoreUnusable" || reason == "CannotPrepare" ||
         std::any_of(kTroubles.begin(), kTroubles.end(),
                     [&](const TroubleText& text) { return text.reason == reason; });
}

bool is_single_node(const ClaimView& claim) { return !has_mode(claim, "ReadWriteMany"); }

}  // namespace compilecache::controller
