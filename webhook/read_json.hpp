#pragma once

#include <string>

#include "base/error.hpp"
#include "webhook/pod_json.hpp"

// From text that strangers wrote to a tree.

namespace compilecache::webhook {

// kInvalid for what is no JSON in UTF-8, for numbers beyond what a double holds, and for what is
// nested deeper than any pod or holds more values than fit into an object that an API server takes:
// whoever works on the tree recurses, and small values need more room as a tree than as text.
Result<JsonDocument> read_json(const std::string& text);

// The same for an AdmissionReview, but for what nobody here asks for, which is checked and left
// out: who asks, the object before, and metadata.managedFields, which is often a third of a pod.
Result<JsonDocument> read_review(const std::string& text, JsonMemory& memory);

// The uid of an AdmissionReview's request, to which API servers listen in an answer; "" without
// one. It stands at the beginning: what follows is not read.
std::string read_review_uid(const std::string& text);

}  // namespace compilecache::webhook
