#pragma once

#include "webhook/decision.hpp"
#include "webhook/pod_json.hpp"

// Checks that the parts of a pod which the injection changes have the right JSON types: lists where
// lists belong, objects where objects do. No API server passes on anything else. Pure.

namespace compilecache::webhook {

// Skips with kRequestInvalid, naming the member.
Decided<void> check_shape(const Json& pod);

}  // namespace compilecache::webhook
