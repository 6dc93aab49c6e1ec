#pragma once

#include <vector>

#include "podspec/environment.hpp"
#include "webhook/injection_plan.hpp"
#include "webhook/patch.hpp"
#include "webhook/pod_json.hpp"

// An injection as a JSON Patch, and whether a pod has it. Pure.

namespace compilecache::webhook {

// Where the injection's init containers begin in the pod that it is made of.
size_t place_of_agents(const Json& pod, const Injection& injection);

// Adds variables to one of the pod's containers.
void patch_variables(Patch& patch, const Json& pod, size_t container,
                     const std::vector<podspec::Variable>& variables);

Patch patch_of(const Json& pod, const Injection& injection);

// Whether the pod carries exactly this injection, whole and where it belongs.
bool is_injected_already(const Json& pod, const Injection& injection);

}  // namespace compilecache::webhook
