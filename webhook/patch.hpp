#pragma once

#include <nlohmann/json_fwd.hpp>

#include "base/error.hpp"

// JSON Patch (RFC 6902) between two versions of an object. Pure.
//
// nlohmann's diff compares arrays place by place, so that a container put first rewrites all that
// follow. Here what is common at both ends of an array stays untouched, and what is between is
// removed and added; a missing array is created once, as a whole.

namespace compilecache::webhook {

// Operations "add", "remove" and "replace" that turn `from` into `to`; empty when they are equal.
// Applied before it is returned: kInternal when it does not give `to`, since a patch that does not
// apply blocks the pod even under failurePolicy Ignore.
Result<nlohmann::json> make_patch(nlohmann::json from, const nlohmann::json& to);

}  // namespace compilecache::webhook
