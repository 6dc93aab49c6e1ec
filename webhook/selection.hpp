#pragma once

#include <string>
#include <vector>

#include "webhook/annotations.hpp"
#include "webhook/decision.hpp"
#include "webhook/pod_json.hpp"
#include "webhook/settings.hpp"

// Selects the containers that get the cache, and finds out which devices they compute on. Pure.

namespace compilecache::webhook {

struct Selection {
  std::vector<size_t> containers;  // indices into spec.containers, in the pod's order; never empty
  std::string gpu_resource;        // "nvidia.com/gpu"; empty: no GPU requested
  int gpu_count = 0;               // of all chosen containers together
};

// Chooses the containers that the annotation names, else those that request a GPU, else the default
// container, whatever it computes on. Skips with kContainerNotFound, or with kPodTooLarge where
// there are too many.
Decided<std::vector<size_t>> choose_containers(const Json& pod, const PodAnnotations& annotations,
                                               const InjectionSettings& settings);

// Chooses the same containers, and adds what they compute on. Where the chosen containers request
// no GPU of a known kind it skips with kResourceClaims or kUnknownDevice too, since the archive
// would be named after the CPU, which is wrong for a pod that computes on something else. Beside
// such a GPU other devices do not matter: the node's GPU product tells the archives apart.
Decided<Selection> select_containers(const Json& pod, const PodAnnotations& annotations,
                                     const InjectionSettings& settings);

}  // namespace compilecache::webhook
