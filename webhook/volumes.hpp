#pragma once

#include <string>
#include <vector>

#include "api/store_ref.hpp"
#include "podspec/pod_fragments.hpp"
#include "webhook/directories.hpp"
#include "webhook/pod_json.hpp"

// The volumes of an injected pod: the cache's own (webhook/directories.hpp), the store and the
// token. Pure.

namespace compilecache::webhook {

std::vector<podspec::Volume> pod_volumes(const DirectoryPlan& directories,
                                         const api::StoreRef& store);

// Mounts of the loader and the saver. The claim is never in the app's containers: archives are
// code, and only our programs write them.
std::vector<podspec::Mount> agent_mounts(const DirectoryPlan& directories, bool store_read_only);

// The pod's cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes with our emptyDirs added,
// or these alone: an emptyDir that it does not name keeps the autoscaler from removing the node.
std::string safe_to_evict_volumes(const Json& pod, const DirectoryPlan& directories);

inline constexpr char kSafeToEvictAnnotation[] =
    "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes";

}  // namespace compilecache::webhook
