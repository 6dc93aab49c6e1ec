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
  // By container_at(): the pod's containers in their order, then init containers; never empty.
  std::vector<size_t> containers;
  std::string gpu_resource;  // "nvidia.com/gpu"; empty: no GPU requested
  int gpu_count = 0;         // of the chosen containers that run together
  // The pod's claims that they use, "CLAIM" or "CLAIM/REQUEST", where they request no such GPU.
  std::vector<std::string> claims;
};

// Chooses the containers that the annotation names, init containers among them, else those that
// request a GPU, else those that use resourceClaims, else the default container, whatever it
// computes on. Skips with kContainerNotFound, with kPodTooLarge where there are too many, and with
// kAnnotationInvalid where a named init container ends before our loader starts.
Decided<std::vector<size_t>> choose_containers(const Json& pod, const PodAnnotations& annotations,
                                               const InjectionSettings& settings);

// Chooses the same containers, and adds their devices. Where the chosen containers request no GPU
// of a known kind, and use no claim of the pod's, it skips with kResourceClaims or kUnknownDevice
// too. The archive would be named after the CPU, which is wrong for a pod that computes on
// something else. Beside such a GPU other devices do not matter: the GPU's product separates the
// archives. A claim's devices are known when the pod runs.
Decided<Selection> select_containers(const Json& pod, const PodAnnotations& annotations,
                                     const InjectionSettings& settings);

}  // namespace compilecache::webhook
