#pragma once

#include <string>
#include <vector>

#include "api/store_ref.hpp"
#include "podspec/pod_fragments.hpp"
#include "webhook/directories.hpp"
#include "webhook/pod_json.hpp"

// The volumes of an injected pod: the cache's own (webhook/directories.hpp), what the store needs
// and the token. Pure.

namespace compilecache::webhook {

// The emptyDirs of one pod for our containers alone: the spool of a saver that sends archives to a
// registry, and the notes of a sidecar that loads and saves. The spool has no sizeLimit, which
// would evict the pod; the saver bounds its content.
struct OwnFolders {
  bool spool = false, state = false;
};

// The emptyDirs that we add: the cache's and our own.
std::vector<std::string> our_empty_dirs(const DirectoryPlan& directories, const OwnFolders& own);

std::vector<podspec::Volume> pod_volumes(const std::vector<std::string>& empty_dirs,
                                         const api::StoreRef& store);

// Mounts of the loader and the saver. The store's mounts, credentials too, are never in the app's
// containers: archives are code, and only our programs write them.
std::vector<podspec::Mount> agent_mounts(const DirectoryPlan& directories,
                                         const api::StoreRef& store, bool store_read_only,
                                         const OwnFolders& own);

// The pod's cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes with our emptyDirs added,
// or these alone: an emptyDir that it does not name keeps the autoscaler from removing the node.
std::string safe_to_evict_volumes(const Json& pod, const std::vector<std::string>& empty_dirs);

inline constexpr char kSafeToEvictAnnotation[] =
    "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes";

}  // namespace compilecache::webhook
