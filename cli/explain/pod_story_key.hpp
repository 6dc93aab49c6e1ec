#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "api/archive_key.hpp"
#include "cli/explain/pod_story.hpp"

// The pod's key for its story: its parts, where each came from, and how another key differs. Pure.

namespace compilecache::cli {

// The key as the operator would make it, for pods of which status.recent has none: from the node
// labels that the shipped settings name. Empty when the node is not known or has none of them.
api::ArchiveKey key_of_pod(const api::KeyBasis& basis, const std::optional<nlohmann::json>& node);

std::vector<KeyPart> parts_of(const api::ArchiveKey& key, const api::KeyBasis& basis,
                              const nlohmann::json& pod, const std::optional<nlohmann::json>& node);

// One text for each part that differs: "Image: app:1 there, app:2 here".
std::vector<std::string> differences(const api::ArchiveKey& there, const api::ArchiveKey& here);

}  // namespace compilecache::cli
