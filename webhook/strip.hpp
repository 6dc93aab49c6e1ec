#pragma once

#include "webhook/patch.hpp"
#include "webhook/pod_json.hpp"

// Takes our injection out of a pod: what the status annotation says we added, and nothing that has
// not one of our names. Nothing for a pod without that annotation, or with one that cannot be read.
// Pure.
//
// Used before injecting anew (another version of ours, changed settings, a container that came
// after us), and for pods made from the manifest of an injected one.

namespace compilecache::webhook {

Patch strip_injection(const Json& pod);

}  // namespace compilecache::webhook
