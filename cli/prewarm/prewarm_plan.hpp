#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "api/archive_key.hpp"
#include "base/error.hpp"
#include "cli/prewarm/gpu_kinds.hpp"
#include "cli/prewarm/prewarm_pod.hpp"
#include "kube/client.hpp"

// What `prewarm` has to do for one workload: asked of the API server without making anything. The
// key is that of a pod which the webhook injects in a dry run, so it is the one that pods will
// have.

namespace compilecache::cli {

struct PrewarmTarget {
  std::string ns, workload, cache;
  std::string archive;  // what pods load; empty where there is none yet
  GpuKind kind;
  nlohmann::json pod;  // restricted to the kind; without a name and a deadline of its own yet
  // Existing archives, by their names: one for each kind of CPU (api::kCpuPart).
  std::map<std::string, int64_t> generations;
  bool warm = false;  // it is there for pods to load
};

struct PrewarmPlan {
  std::vector<PrewarmTarget> targets;
  std::vector<std::string> notes;  // what people should know
};

struct PrewarmWish {
  std::vector<std::string>
      images;  // "IMAGE", of the container with the cache, or "CONTAINER=IMAGE"
  std::vector<std::string> products;  // empty: those that the CompileCache has archives of
  bool all_products = false;
};

// Errors say why no pod can warm the archive: there is no CompileCache, it is not ready, the pod
// would not be injected, there is no such GPU.
Result<PrewarmPlan> plan_prewarm(const kube::Client& client, const WorkloadTemplate& workload,
                                 const PrewarmWish& wish, const api::NodeLabels& labels);

}  // namespace compilecache::cli
