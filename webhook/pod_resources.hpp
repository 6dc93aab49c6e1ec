#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "webhook/namespace_facts.hpp"

// What a pod requests and how Kubernetes ranks it, by its rules. Pure.

namespace compilecache::webhook {

enum class Qos { kBestEffort, kBurstable, kGuaranteed };

// Over init and app containers alike; only cpu and memory count, and zeros do not
// (kubernetes pkg/apis/core/v1/helper/qos).
Qos qos_of(const nlohmann::json& pod);

// Of one container; a request that is missing is its limit, as the API server fills in. What is
// missing or unreadable is absent.
struct ContainerAmounts {
  Amounts requests, limits;
};
ContainerAmounts amounts_of(const nlohmann::json& container);

// What scheduler and quota count: max(each init container with the sidecars before it, all app
// containers with all sidecars), and the overhead. Source: KEP-753.
ContainerAmounts effective_amounts(const nlohmann::json& pod);

// "100m", "2", "128Mi".
std::string format_amount(int64_t milli);

}  // namespace compilecache::webhook
