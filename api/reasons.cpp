#include "api/reasons.hpp"

#include <array>

namespace compilecache::api {
namespace {

using R = InjectionReason;

constexpr std::array kTexts{
    InjectionReasonText{R::kInjected, "injected", "Injected",
                        "the loader and the saver were added to the pod"},
    InjectionReasonText{R::kAlreadyInjected, "already_injected", "AlreadyInjected",
                        "this version's loader and saver are already in the pod"},
    InjectionReasonText{R::kDisabled, "disabled", "InjectionDisabled",
                        "the annotation compilecache.dev/mode says Disabled"},
    InjectionReasonText{
        R::kForcedCold, "forced_cold", "ForcedCold",
        "the annotation compilecache.dev/mode says ForceCold: the pod compiles everything"},
    InjectionReasonText{R::kNotAnnotated, "not_annotated", "NotAnnotated",
                        "the pod has no annotation compilecache.dev/cache"},
    InjectionReasonText{
        R::kAnnotationInvalid, "annotation_invalid", "AnnotationInvalid",
        "an annotation of compilecache.dev cannot be used; correct it in the pod template"},
    InjectionReasonText{R::kCacheNotFound, "cache_not_found", "CacheNotFound",
                        "there is no CompileCache of that name in the pod's namespace; create it "
                        "or correct the annotation"},
    InjectionReasonText{R::kCacheDeleting, "cache_deleting", "CacheDeleting",
                        "the CompileCache is being deleted"},
    InjectionReasonText{R::kCacheNotReady, "cache_not_ready", "CacheNotReady",
                        "the CompileCache is not ready; `kubectl describe cc` says why"},
    InjectionReasonText{R::kInjectionPaused, "injection_paused", "InjectionPaused",
                        "injection for this CompileCache is paused because earlier pods could not "
                        "start with it; `kubectl describe cc` names them"},
    InjectionReasonText{R::kUnknownFramework, "unknown_framework", "UnknownFramework",
                        "a framework is not in the operator's settings"},
    InjectionReasonText{
        R::kContainerNotFound, "container_not_found", "ContainerNotFound",
        "the annotation compilecache.dev/containers names a container that the pod does not have"},
    InjectionReasonText{
        R::kNameConflict, "name_conflict", "NameConflict",
        "the pod already has a container or volume with one of our names; rename it"},
    InjectionReasonText{R::kMountConflict, "mount_conflict", "MountConflict",
                        "a mount of the pod covers the cache directory; move one of the two"},
    InjectionReasonText{R::kCacheDirUnsafe, "cache_dir_unsafe", "CacheDirUnsafe",
                        "a mount at the pod's own cache directory could hide files the application "
                        "needs; choose a folder of its own for it"},
    InjectionReasonText{R::kCacheDirNotLiteral, "cache_dir_not_literal", "CacheDirNotLiteral",
                        "the pod's own cache directory comes from valueFrom or refers to another "
                        "variable; write it literally or remove it"},
    InjectionReasonText{R::kOwnCaches, "own_caches", "OwnCaches",
                        "the pod sets the cache directory of every framework itself, and "
                        "only-if-unset leaves those alone"},
    InjectionReasonText{R::kPodTooLarge, "pod_too_large", "PodTooLarge",
                        "the pod is larger than 1 MiB, and with the loader and the saver might be "
                        "larger than the API server accepts"},
    InjectionReasonText{R::kNoRoomInQuota, "no_room_in_quota", "NoRoomInQuota",
                        "the namespace's ResourceQuota has no room for the loader and the saver"},
    InjectionReasonText{
        R::kNoRoomInLimitRange, "no_room_in_limit_range", "NoRoomInLimitRange",
        "the namespace's LimitRange does not allow the resources of the loader and the saver"},
    InjectionReasonText{R::kWindowsPod, "windows_pod", "WindowsPod", "Windows pods are left alone"},
    InjectionReasonText{
        R::kUserNamespace, "user_namespace", "UserNamespace",
        "the pod has hostUsers: false, and NFS and some other file systems cannot be mounted into "
        "such a pod; use a registry, or set spec.storage.allowUserNamespaces where the volume "
        "supports ID-mapped mounts"},
    InjectionReasonText{R::kMirrorPod, "mirror_pod", "MirrorPod", "static pods are left alone"},
    InjectionReasonText{R::kNamespaceExcluded, "namespace_excluded", "NamespaceExcluded",
                        "pods of kube-system and of the operator's own namespace are left alone"},
    InjectionReasonText{R::kKubeletTooOld, "kubelet_too_old", "KubeletTooOld",
                        "a node's kubelet is too old for native sidecars; Kubernetes 1.30 is the "
                        "oldest that works"},
    InjectionReasonText{R::kResourceClaims, "resource_claims", "ResourceClaims",
                        "the pod gets devices by resourceClaims that cannot be resolved"},
    InjectionReasonText{R::kUnknownDevice, "unknown_device", "UnknownDevice",
                        "the pod requests a device of a vendor that the settings do not name; add "
                        "it to gpuResources"},
    InjectionReasonText{R::kNoPodTemplate, "no_pod_template", "NoPodTemplate",
                        "`kubectl compilecache inject` found the annotation on something that is "
                        "no pod template which it could inject"},
    InjectionReasonText{R::kTookTooLong, "took_too_long", "TookTooLong",
                        "the operator had too much to do to look at the pod in time; if it stays "
                        "so, see who creates so many or such large pods"},
    InjectionReasonText{R::kPatchFailed, "patch_failed", "PatchFailed",
                        "the patch did not apply to the pod; please report this"},
    InjectionReasonText{R::kRequestInvalid, "request_invalid", "RequestInvalid",
                        "the admission request could not be read"},
};

}  // namespace

std::span<const InjectionReasonText> injection_reasons() { return kTexts; }

const InjectionReasonText& text_of(InjectionReason reason) {
  for (const InjectionReasonText& text : kTexts) {
    if (text.reason == reason) return text;
  }
  return kTexts.back();
}

}  // namespace compilecache::api
