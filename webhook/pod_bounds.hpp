#pragma once

#include <cstddef>

#include "webhook/decision.hpp"
#include "webhook/patch.hpp"
#include "webhook/pod_json.hpp"

// How much of a pod is looked at, and how much may be added to it: anyone may write pods, and all
// of them are answered by the same few threads. What is over a bound is left alone, before any of
// its lists is walked. Pure.

namespace compilecache::webhook {

// Names in an annotation, and the text of each list of them: a container's name has 63 characters.
inline constexpr size_t kMostNames = 64;
inline constexpr size_t kLongestNames = 8U << 10;
// Containers that get the cache. Each gets all variables, and a node has 16 GPUs at most.
inline constexpr size_t kMostChosenContainers = 32;
// Containers of each kind. Real pods have some ten.
inline constexpr size_t kMostContainers = 500;
// Names of one container's requests, or of its limits.
inline constexpr size_t kMostResources = 64;
// A path that a cache lies at. The command lines are searched for it.
inline constexpr size_t kLongestDirectory = 512;
// The annotation compilecache.dev/status: 32 containers with all variables of all frameworks.
inline constexpr size_t kLongestStatus = 128U << 10;
// Pieces that an earlier injection left; each is taken out of its list by moving the rest.
inline constexpr size_t kMostRemovals = 1200;

// Skips with kPodTooLarge: larger than 1 MiB, too many containers or resources of one. Linear.
Decided<void> check_bounds(const Json& pod);

// Whether the pod stays one that the API server takes with what the patch adds: kPodTooLarge.
// `pod`: without an earlier injection, whose removal may be part of the patch.
Decided<void> check_growth(const Json& pod, const Patch& patch);

}  // namespace compilecache::webhook
