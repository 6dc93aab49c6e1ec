#include "cli/text/outcome_reasons.hpp"

#include <algorithm>
#include <array>

namespace compilecache::cli {
namespace {

// What loads and saves have in common.
constexpr std::array kRegistryReasons{
    OutcomeReason{"registry_unreachable",
                  "the registry gave no answer, or one that is no registry's",
                  "see that it runs, and that NetworkPolicies and proxies let pods reach it"},
    OutcomeReason{"registry_unauthorized", "the registry refuses who the pod is, or what it may do",
                  "let the account of spec.storage.registry.secretName pull and push there"},
    OutcomeReason{"registry_certificate",
                  "nobody that is trusted has signed the registry's certificate",
                  "name a ConfigMap with its authority in spec.storage.registry.caConfigMapName"},
    OutcomeReason{"registry_missing", "the registry has no such repository, and makes none",
                  "create it, or the project that it is in"},
    OutcomeReason{"registry_full", "the registry has no room, or a quota of its own is used up",
                  "give it more room, raise its quota, or lower spec.retention"},
    OutcomeReason{"secret_missing", "the registry's Secret is not there",
                  "create it: kubectl create secret docker-registry"},
    OutcomeReason{"secret_wrong_type", "the registry's Secret has no .dockerconfigjson",
                  "recreate it: kubectl create secret docker-registry"},
    OutcomeReason{"secret_unusable", "the registry's Secret has no user and password for the host",
                  "recreate it: kubectl create secret docker-registry"},
    OutcomeReason{"ca_missing", "the ConfigMap with the registry's authority is not there",
                  "create it, with the key ca.crt"},
    OutcomeReason{"ca_unusable", "the ConfigMap of the registry's authority has no certificate",
                  "put certificates in PEM into its ca.crt"},
};

constexpr OutcomeReason kDeviceUnknownReason{
    "device_unknown",
    "the GPUs that the pod got by its resourceClaims are unknown: none is of a driver in "
    "deviceDrivers of the operator's settings, or one lacks an attribute named there",
    "add the driver or the attribute's name there; else leave the pod's annotation out"};

template <size_t N, size_t M>
constexpr auto joined(const std::array<OutcomeReason, N>& some,
                      const std::array<OutcomeReason, M>& more) {
  std::array<OutcomeReason, N + M> all{};
  std::copy(some.begin(), some.end(), all.begin());
  std::copy(more.begin(), more.end(), all.begin() + N);
  return all;
}

constexpr std::array kOtherLoadReasons{
    OutcomeReason{"no_archive", "nothing was saved yet for this key: the first pod of its kind",
                  ""},
    OutcomeReason{"mode_refresh", "the pod's mode is Refresh", ""},
    OutcomeReason{"refresh", "the pod's mode is Refresh",
                  "remove the annotation compilecache.dev/mode when the new archive is saved"},
    OutcomeReason{"gpu_product_unknown", "the node has no label for its GPU product",
                  "check that GPU feature discovery runs on the node, or add the label's name to "
                  "gpuProductLabels in the operator's settings"},
    OutcomeReason{"claim_not_allocated",
                  "a ResourceClaim of the pod is not there or has no devices",
                  "see the claim's status: kubectl describe resourceclaim"},
    OutcomeReason{"device_not_published",
                  "no ResourceSlice of the pool's newest generation has a device that the pod was "
                  "given",
                  "see that the device's driver runs on the node"},
    kDeviceUnknownReason,
    OutcomeReason{"devices_unreadable",
                  "the operator could not read the pod's ResourceClaims or the ResourceSlices",
                  "see the operator's log; it needs the rights of config/operator/rbac.yaml"},
    OutcomeReason{"key_unknown", "the pod's key cannot be made", "see the operator's log"},
    OutcomeReason{"pod_ends", "the pod was deleted while it waited", ""},
    OutcomeReason{"waited_enough",
                  "it waited for as long as it may, and what it waited for did not come",
                  "see what it waited for; spec.load.waitForFirst and spec.load.timeout bound it"},
    OutcomeReason{"group_cold",
                  "another pod of its group started cold, and all pods of one start get the same "
                  "(docs/how-to/ranks.md)",
                  ""},
    OutcomeReason{"too_many_loads",
                  "more pods load from the store at once than limits.maxConcurrentLoads allows",
                  "raise limits.maxConcurrentLoads in the operator's settings if the store can "
                  "serve more, or raise spec.load.timeout"},
    OutcomeReason{"cpu_mismatch",
                  "what is saved for this key holds code for another kind of CPU than the node's",
                  "nothing: this pod compiles and saves for its own kind (docs/how-to/cpu.md)"},
    OutcomeReason{"cpu_unknown",
                  "for which CPU the archive's code was compiled is not known: 0.2 or an earlier "
                  "release saved it, or the node or the pod's variables do not show its CPU",
                  "nothing: the next save says it (docs/how-to/cpu.md)"},
    OutcomeReason{"saver_not_allowed",
                  "the archive may hold files of a service account that "
                  "spec.save.allowedServiceAccounts does not name",
                  "nothing: the next save of an allowed account replaces it"},
    OutcomeReason{"suspect",
                  "the archive is handed out no more (docs/troubleshoot/suspect-archives.md)", ""},
    OutcomeReason{"corrupt", "a blob's bytes are not what was saved",
                  "nothing for one pod: a Job checks the archive and the next save replaces it; "
                  "where it happens again, check the volume or the registry"},
    OutcomeReason{"unsupported", "another release wrote the archive",
                  "use that release's agent, or delete the archive's object (kubectl delete cca)"},
    OutcomeReason{"blob_missing", "the store lacks a blob of the archive",
                  "nothing, the next save writes it again; with spec.save.policy Once delete the "
                  "archive's object (kubectl delete cca)"},
    OutcomeReason{"too_slow", "the store was too slow for the load's budget",
                  "use a faster store; or raise spec.load.timeout, if the archive saves more than "
                  "twice that time"},
    OutcomeReason{"timeout", "the load used up its budget",
                  "use a faster store; or raise spec.load.timeout, if the archive saves more than "
                  "twice that time"},
    OutcomeReason{"too_large",
                  "the archive would take more than half of the pod's ephemeral-storage limit",
                  "raise that limit"},
    OutcomeReason{"store_missing", "the archives' folder on the volume is missing",
                  "nothing: a sweep Job recreates it at once, and the next save fills it"},
    OutcomeReason{"store_forbidden", "the loader may not read the archives' folder on the volume",
                  "let other users pass every folder above it (chmod o+x)"},
    OutcomeReason{"disk_full", "the node's disk is full, or the pod's share of it",
                  "give the node more room, or cache fewer frameworks"},
    OutcomeReason{"io", "an error of the store or of the pod's disk", "see its message"},
    OutcomeReason{"internal", "a fault of the loader's own, or too little memory for it",
                  "see kubectl logs POD -c compilecache-load"},
    OutcomeReason{"directory_filled",
                  "the directory held a cache already: the loader ran a second time", ""},
    OutcomeReason{"loader_killed", "an earlier loader of the pod was killed or crashed",
                  "see why with kubectl describe pod; give the loader more memory "
                  "(resources.loader in the settings) where it was OOMKilled"},
    OutcomeReason{"terminated", "the pod was ended while it was loading", ""},
    OutcomeReason{"refused", "the operator does not know the pod as one of this CompileCache's",
                  "recreate the pod; it was injected for another CompileCache"},
    OutcomeReason{"cache_gone", "the pod's CompileCache does not exist any more",
                  "create it again, or take the annotation off the pod template"},
    OutcomeReason{"operator_unreachable",
                  "there was no answer from the operator, and agent.indexFallback is off",
                  "see whether the operator runs and whether a NetworkPolicy keeps pods from it"},
    OutcomeReason{"node_unknown",
                  "there was no answer from the operator, and the index on the volume does not "
                  "know the node's GPU",
                  "see whether the operator runs and whether a NetworkPolicy keeps pods from it"},
};

constexpr std::array kOtherSaveReasons{
    OutcomeReason{"unchanged", "everything is in the archive already", ""},
    OutcomeReason{"already_current", "another pod's save holds all that this one has", ""},
    OutcomeReason{"nothing_to_save", "the application has compiled nothing", ""},
    OutcomeReason{"busy", "others are saving; it is tried again", ""},
    OutcomeReason{"service_account_not_allowed",
                  "the pod's service account is not in spec.save.allowedServiceAccounts",
                  "add it there, if its archives may be trusted"},
    OutcomeReason{"cpu_unknown", "the cache holds code for CPUs of an unknown kind",
                  "write ATEN_CPU_CAPABILITY literally in the pod template, or take it out"},
    OutcomeReason{"policy_never", "spec.save.policy is Never", ""},
    kDeviceUnknownReason,
    OutcomeReason{"mode_read_only", "the pod's mode is ReadOnly", ""},
    OutcomeReason{"loaded_suspect", "what the pod loaded makes pods crash, and is in its directory",
                  "replace the pod"},
    OutcomeReason{"loaded_not_allowed",
                  "what the pod loaded, and has in its directory, may be of a service account that "
                  "spec.save.allowedServiceAccounts does not name",
                  "replace the pod"},
    OutcomeReason{"saved_once", "spec.save.policy is Once, and there is an archive", ""},
    OutcomeReason{"saving_is_off", "spec.save.policy or the pod's mode forbids it", ""},
    OutcomeReason{"too_large", "the archive would be larger than spec.save.maxArchiveSize",
                  "raise spec.save.maxArchiveSize"},
    OutcomeReason{
        "unreadable", "files that only their owner may read were not saved",
        "set spec.save.runAsUser, or securityContext.runAsUser in the pod, to their owner "
        "(status.fileOwners)"},
    OutcomeReason{"file_too_large",
                  "a file that no archive can hold was left out, the rest is saved",
                  "keep it out of the cache directory, or raise spec.save.maxArchiveSize where its "
                  "message says so"},
    OutcomeReason{"busy_files", "files changed while they were read; it is tried again", ""},
    OutcomeReason{"operator_unreachable",
                  "there was no answer from the operator; it is tried again",
                  "see whether the operator runs and whether a NetworkPolicy keeps pods from it"},
    OutcomeReason{"cache_gone", "the pod's CompileCache does not exist any more",
                  "create it again, or take the annotation off the pod template"},
    OutcomeReason{"refused", "the operator does not know the pod as one of this CompileCache's",
                  "recreate the pod"},
    OutcomeReason{"conflict", "other saves came first, or the lock was lost; it is tried again",
                  ""},
    OutcomeReason{"commit_failed",
                  "other saves came first, or the lock was lost; it is tried again", ""},
    OutcomeReason{"out_of_time", "the last save did not fit into spec.save.atTermination",
                  "raise spec.save.atTermination, or lower spec.save.quietPeriod so that pods save "
                  "before they end"},
    OutcomeReason{"too_many_files",
                  "there are more files than an archive has or the saver looks at; what fits is "
                  "saved by whole entries",
                  "cache fewer frameworks, or clear what is old"},
    OutcomeReason{"volume_full", "the volume is full, or a quota of it",
                  "give the claim more room, or lower spec.retention"},
    OutcomeReason{"quota_exceeded",
                  "the CompileCache, or its namespace, keeps as much in the installation's "
                  "registry as it may; loads go on",
                  "see StorageReady in kubectl describe cc: delete CompileCacheArchives that are "
                  "not needed, raise spec.retention.maxTotalSize, or have registry.namespaceShare "
                  "raised in the operator's settings"},
    OutcomeReason{"store_missing",
                  "the archives' folder on the volume is missing; a sweep Job recreates it at once",
                  "nothing, when the next save succeeds"},
    OutcomeReason{"store_forbidden",
                  "the saver may not write to the archives' folder on the volume",
                  "let other users pass every folder above it (chmod o+x), and mount the volume "
                  "for writing"},
    OutcomeReason{"disk_full",
                  "the node's disk is full, or the pod's share of it, where archives are kept on "
                  "their way to a registry",
                  "give the node or the pod more room (ephemeral-storage)"},
    OutcomeReason{"io", "an error of the store", "see kubectl logs POD -c compilecache-save"},
    OutcomeReason{"internal", "a fault of the saver's own, or too little memory for it",
                  "its log has it; give it more memory or please report it"},
};

constexpr auto kLoadReasons = joined(kOtherLoadReasons, kRegistryReasons);
constexpr auto kSaveReasons = joined(kOtherSaveReasons, kRegistryReasons);

const OutcomeReason* find(std::span<const OutcomeReason> reasons, std::string_view word) {
  const auto found = std::find_if(reasons.begin(), reasons.end(),
                                  [&](const OutcomeReason& reason) { return reason.word == word; });
  return found == reasons.end() ? nullptr : &*found;
}

}  // namespace

std::span<const OutcomeReason> load_reasons() { return kLoadReasons; }
std::span<const OutcomeReason> save_reasons() { return kSaveReasons; }

const OutcomeReason* find_load_reason(std::string_view word) { return find(kLoadReasons, word); }
const OutcomeReason* find_save_reason(std::string_view word) { return find(kSaveReasons, word); }

}  // namespace compilecache::cli
