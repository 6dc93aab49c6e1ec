#pragma once

#include <string>
#include <vector>

#include "frameworks/framework.hpp"
#include "webhook/annotations.hpp"
#include "webhook/decision.hpp"
#include "webhook/injection.hpp"
#include "webhook/volumes.hpp"

// Whether a pod may be injected at all: what speaks against it before anything is planned. Each
// check returns the reason for a skip. Pure.

namespace compilecache::webhook {

// The namespace, a pod without the annotation, mirror pods, Windows.
Decided<void> check_pod_kind(const InjectionInput& input);
// That the CompileCache exists, that it takes pods now, and that the nodes can run the injection.
Decided<void> check_cache(const InjectionInput& input, const PodAnnotations& annotations);
// Those that the pod or else its CompileCache names; each is known.
Decided<std::vector<const frameworks::Framework*>> select_frameworks(
    const InjectionInput& input, const PodAnnotations& annotations);
// That nothing of the pod has a reserved name. `pod` carries no injection, so everything with such
// a name is the user's.
Decided<void> check_names(const Json& pod, const std::vector<podspec::Volume>& volumes,
                          const PodAnnotations& annotations);

}  // namespace compilecache::webhook
