#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "api/archive_key.hpp"
#include "cli/pod_story.hpp"

// The key's part in a pod's story: what it is, where each part came from, and what another one has
// otherwise. Pure.

namespace compilecache::cli {

// As the operator makes it, where it has not told: from the labels that the shipped settings name.
// Empty when the node is not known or has none of them.
api::ArchiveKey key_of_pod(const api::KeyBasis& basis, const std::optional<nlohmann::json>& node);

std::vector<KeyPart> parts_of(const api::ArchiveKey& key, const api::KeyBasis& basis,
                              const nlohmann::json& pod, const std::optional<nlohmann::json>& node);

// "Image: app:1 there, app:2 here", a part each.
std::vector<std::string> differences(const api::ArchiveKey& there, const api::ArchiveKey& here);

}  // namespace compilecache::cli
