#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "base/error.hpp"

// Reads an AdmissionReview. Internal to this folder.

namespace compilecache::webhook {

// As json::parse(), but for what nobody here asks for, which is checked and left out: who asks, the
// object before, and metadata.managedFields, which is often a third of a pod. Refuses (kInvalid)
// what is nested deeper than any pod, or holds more values than fit into an object that an API
// server takes: as a tree, small values need fifty times their text.
Result<nlohmann::json> parse_review(std::string_view text);

}  // namespace compilecache::webhook
