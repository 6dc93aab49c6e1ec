#pragma once

#include "webhook/decision.hpp"
#include "webhook/pod_json.hpp"

// Whether what the injection changes in a pod is what it should be: lists where lists belong,
// objects where objects do. No API server passes anything else on. Pure.

namespace compilecache::webhook {

// Skips with kRequestInvalid, naming the member.
Decided<void> check_shape(const Json& pod);

}  // namespace compilecache::webhook
