#pragma once

#include <string>
#include <vector>

#include "base/quantity.hpp"
#include "webhook/namespace_facts.hpp"
#include "webhook/pod_json.hpp"

// A pod's requests, and its QoS class, by Kubernetes' rules. Pure.

namespace compilecache::webhook {

enum class Qos { kBestEffort, kBurstable, kGuaranteed };

// The QoS class follows from the pod-level resources where the pod has any (KEP-2837), else from
// those of init and app containers alike. Only cpu and memory count, and zeros do not (kubernetes
// pkg/apis/core/v1/helper/qos).
Qos qos_of(const Json& pod);

// Whether the pod's spec has cpu, memory or hugepages besides those of its containers (KEP-2837).
bool has_pod_level_resources(const Json& pod);

// The amounts of one container. A missing request is its limit, as the API server fills in; what
// cannot be read is left out.
struct ContainerAmounts {
  Amounts requests, limits;
};
ContainerAmounts amounts_of(const Json& container);
// Fills in missing requests in the same way, for amounts that belong to no container yet.
ContainerAmounts with_defaults(ContainerAmounts amounts);

struct InitContainer {
  ContainerAmounts amounts;
  bool is_sidecar = false;
};

// The resources of a pod's containers together, with `more` init containers before its own:
// max(each init container with the sidecars before it, all app containers with all sidecars).
// Source: KEP-753.
ContainerAmounts summed_amounts(const Json& pod, const std::vector<InitContainer>& more = {});

// What scheduler and quota count: that sum, with the pod-level resources in its place where the pod
// has any, plus the overhead.
ContainerAmounts effective_amounts(const Json& pod, const std::vector<InitContainer>& more = {});

// "100m", "2", "128Mi".
inline std::string format_amount(int64_t milli) { return format_quantity({milli}); }

}  // namespace compilecache::webhook
