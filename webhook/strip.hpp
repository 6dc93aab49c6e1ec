#pragma once

#include "webhook/decision.hpp"
#include "webhook/patch.hpp"
#include "webhook/pod_json.hpp"
#include "webhook/settings.hpp"

// Removes our injection from a pod. The status annotation lists the additions, but the pod's author
// may have written it. So it counts only beside the label that every injected pod has. Removed
// parts must have one of our names, and a variable must also have a value that we give it: a
// directory in an injected volume, or the settings' value. Another webhook's values stay. Pure.
//
// Used before injecting again (another version, changed settings, a container that came
// after us), and for pods made from the manifest of an injected one.

namespace compilecache::webhook {

// Returns an empty patch for a pod without one. Skips with kPodTooLarge where there is more to
// remove than any injection adds.
Decided<Patch> strip_injection(const Json& pod, const InjectionSettings& settings);

}  // namespace compilecache::webhook
