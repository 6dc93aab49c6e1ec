#pragma once

#include <span>
#include <string_view>

// Why a pod was injected or not: the reason in the admission warning, the Event, the metric's
// label, the log's field and a row of docs/troubleshoot/reasons.md.

namespace compilecache::api {

enum class InjectionReason {
  kInjected,
  kAlreadyInjected,
  kDisabled,    // mode Disabled
  kForcedCold,  // mode ForceCold
  kNotAnnotated,
  kAnnotationInvalid,
  kCacheNotFound,
  kCacheDeleting,
  kCacheNotReady,    // StorageReady is not True
  kInjectionPaused,  // the breaker is open
  kUnknownFramework,
  kContainerNotFound,
  kNameConflict,        // a container or volume of the user has one of our names
  kMountConflict,       // a mount of the user covers the cache path
  kCacheDirUnsafe,      // the user's cache directory could hide something
  kCacheDirNotLiteral,  // it comes from valueFrom or envFrom
  kOwnCaches,           // the pod has caches of its own for all frameworks: onlyIfUnset
  kPodTooLarge,         // injected it might be larger than etcd takes, or too much to look at
  kNoRoomInQuota,
  kNoRoomInLimitRange,
  kWindowsPod,
  kUserNamespace,  // the pod has one of its own, which the claim's volume may not support
  kMirrorPod,
  kNamespaceExcluded,
  kKubeletTooOld,
  kResourceClaims,  // devices we cannot name
  kUnknownDevice,   // an extended resource we cannot name
  kNoPodTemplate,   // `inject` alone: the annotation is on something else
  kTookTooLong,     // no thread had time for it before the API server would give up
  kPatchFailed,     // our own patch did not apply; a bug
  kRequestInvalid,  // the admission request itself could not be read
};

struct InjectionReasonText {
  InjectionReason reason;
  std::string_view word;      // "cache_not_found": metric label, log field, report
  std::string_view event;     // "CacheNotFound": Event reason
  std::string_view sentence;  // for people: what it means and what to do
};

std::span<const InjectionReasonText> injection_reasons();
const InjectionReasonText& text_of(InjectionReason reason);

}  // namespace compilecache::api
