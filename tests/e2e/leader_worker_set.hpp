#pragma once

#include <nlohmann/json.hpp>
#include <string>

// Groups of pods that the real LeaderWorkerSet controller makes.

namespace compilecache::e2e {

// A LeaderWorkerSet "group" in the namespace of `pod`, a pod's manifest that is the template of all
// its pods.
[[nodiscard]] nlohmann::json leader_worker_set(const nlohmann::json& pod, int groups, int size);

// The pods of all its groups, as the API server has them.
[[nodiscard]] nlohmann::json pods_of_groups(const std::string& ns);

}  // namespace compilecache::e2e
