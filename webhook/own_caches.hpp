#pragma once

#include <string>
#include <vector>

#include "frameworks/framework.hpp"
#include "webhook/annotations.hpp"
#include "webhook/decision.hpp"
#include "webhook/pod_json.hpp"
#include "webhook/selection.hpp"

// Pods whose images bring caches of their own, which an injected variable or mount would hide.
// An image's variables are not visible at admission, so the pod has to repeat them: by the
// framework's variable in its `env` or `envFrom`. It also needs `onlyIfUnset` of the framework or
// the annotation compilecache.dev/only-if-unset. Pure.

namespace compilecache::webhook {

// Returns the frameworks that are injected, without those for which the pod has a cache of its own.
// Skips with kOwnCaches when none remains.
Decided<std::vector<const frameworks::Framework*>> without_own_caches(
    const Json& pod, const Selection& selection, const PodAnnotations& annotations,
    const std::vector<const frameworks::Framework*>& frameworks);

// Whether an envFrom of the container may set that variable, as far as its prefix tells.
bool may_come_from_env_from(const Json& container, const std::string& variable);

}  // namespace compilecache::webhook
