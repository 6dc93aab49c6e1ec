#pragma once

#include "webhook/decision.hpp"
#include "webhook/patch.hpp"
#include "webhook/pod_json.hpp"
#include "webhook/settings.hpp"

// Removes our injection from a pod. The status annotation says what we added, but whoever made the
// pod may have written it: so it counts only beside the label that every injected pod has, what is
// taken out must have one of our names, and a variable must also have a value that we give it: a
// directory in a volume of ours, or what the settings say. What another webhook set stays. Pure.
//
// Used before injecting anew (another version of ours, changed settings, a container that came
// after us), and for pods made from the manifest of an injected one.

namespace compilecache::webhook {

// Returns an empty patch for a pod without one. Skips with kPodTooLarge where there is more to
// remove than any injection adds.
Decided<Patch> strip_injection(const Json& pod, const InjectionSettings& settings);

}  // namespace compilecache::webhook
