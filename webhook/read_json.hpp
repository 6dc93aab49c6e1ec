#pragma once

#include <string>

#include "base/error.hpp"
#include "webhook/pod_json.hpp"

// Parses JSON text that strangers wrote.

namespace compilecache::webhook {

// kInvalid for text that is no JSON in UTF-8, for numbers beyond a double, for deeper nesting
// than any pod has. Also for more values than fit into an object of an API server. Code
// that works on the tree recurses, and small values need more memory in a tree than as text.
Result<JsonDocument> read_json(const std::string& text);

// Does the same for an AdmissionReview, leaving out what nobody here needs (that is only checked):
// userInfo, oldObject, and metadata.managedFields, which is often a third of a pod.
Result<JsonDocument> read_review(const std::string& text, JsonMemory& memory);

// The uid of an AdmissionReview's request, without which API servers ignore an answer; "" when
// there is none. It stands at the beginning, and the rest is not read.
std::string read_review_uid(const std::string& text);

}  // namespace compilecache::webhook
