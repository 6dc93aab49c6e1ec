#pragma once

#include <cstddef>

#include "api/injection_bounds.hpp"
#include "webhook/decision.hpp"
#include "webhook/patch.hpp"
#include "webhook/pod_json.hpp"

// Bounds of what is read from a pod and of what is added to it: anyone may write pods, and the same
// few threads answer for all. A pod over a bound is left alone before any of its lists is walked.
// Pure.

namespace compilecache::webhook {

// The most names in an annotation, and the longest text of a list of names: a container's name has
// 63 characters.
inline constexpr size_t kMostNames = 64;
inline constexpr size_t kLongestNames = 8U << 10;
// The most containers of each kind. Real pods have some ten.
inline constexpr size_t kMostContainers = 500;
// The most resources in one container's requests, or in its limits.
inline constexpr size_t kMostResources = 64;
// The longest path of a cache directory. Command lines are searched for it.
inline constexpr size_t kLongestDirectory = 512;
// The most parts of an earlier injection; removing one from its list moves the rest of the list.
inline constexpr size_t kMostRemovals = 1200;

// Skips with kPodTooLarge a pod that is larger than 1 MiB, or has too many containers or resources.
// Takes linear time.
Decided<void> check_bounds(const Json& pod);

// Skips with kPodTooLarge where the patched pod would be larger than the API server accepts, or its
// status than the operator reads. `pod` is without an earlier injection, whose removal may be part
// of the patch.
Decided<void> check_growth(const Json& pod, const Patch& patch, const api::InjectionStatus& status);

}  // namespace compilecache::webhook
