#pragma once

#include "kube/events.hpp"
#include "operator/cluster/cluster_view.hpp"

// Events about pods themselves, as `kubectl describe pod` shows them. Pure.

namespace compilecache::controller {

kube::ObjectReference pod_reference(const PodView& pod);

// That the pod was injected. The webhook can only write this of the owner, as there is no pod yet.
// The pod has an injection.
kube::EventRecord injected_event(const PodView& pod);

}  // namespace compilecache::controller
