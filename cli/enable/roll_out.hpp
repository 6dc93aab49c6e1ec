#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "cli/cluster/workload_template.hpp"

// How a workload's pods are replaced when its pod template changes. Pure.

namespace compilecache::cli {

// Why its pod template cannot be changed, or not by us: an immutable one, or a controller that
// would write over it. A clause with what to do; empty: it can.
std::string why_fixed(const nlohmann::json& object, const WorkloadTemplate& workload);

// How a change of the template reaches the pods, in sentences: "A roll-out replaces its 3 pods. …"
std::string roll_out_of(const nlohmann::json& object, const WorkloadTemplate& workload);

// "Helm", "Argo CD", "Flux": the tool that owns the object, as its labels and annotations say;
// empty: none is known.
std::string manager_of(const nlohmann::json& object);

}  // namespace compilecache::cli
