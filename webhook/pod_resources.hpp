#pragma once

#include <string>
#include <vector>

#include "webhook/namespace_facts.hpp"
#include "webhook/pod_json.hpp"

// What a pod requests and how Kubernetes ranks it, by its rules. Pure.

namespace compilecache::webhook {

enum class Qos { kBestEffort, kBurstable, kGuaranteed };

// By the pod's own resources where it has any (KEP-2837), else over init and app containers alike;
// only cpu and memory count, and zeros do not (kubernetes pkg/apis/core/v1/helper/qos).
Qos qos_of(const Json& pod);

// Whether the pod's spec has resources of its own, beside those of its containers (KEP-2837).
bool has_pod_level_resources(const Json& pod);

// Of one container; a request that is missing is its limit, as the API server fills in. What is
// missing or unreadable is absent.
struct ContainerAmounts {
  Amounts requests, limits;
};
ContainerAmounts amounts_of(const Json& container);
// The same for amounts that did not come from a container yet.
ContainerAmounts with_defaults(ContainerAmounts amounts);

struct InitContainer {
  ContainerAmounts amounts;
  bool is_sidecar = false;
};

// What a pod's containers take together, with more init containers before its own: max(each init
// container with the sidecars before it, all app containers with all sidecars). Source: KEP-753.
ContainerAmounts summed_amounts(const Json& pod, const std::vector<InitContainer>& more = {});

// What scheduler and quota count: that sum, but for what the pod as a whole asks for, and the
// overhead.
ContainerAmounts effective_amounts(const Json& pod, const std::vector<InitContainer>& more = {});

// "100m", "2", "128Mi".
std::string format_amount(int64_t milli);

}  // namespace compilecache::webhook
