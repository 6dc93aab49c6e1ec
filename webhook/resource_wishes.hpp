#pragma once

#include <string>

#include "api/agent_resources.hpp"
#include "webhook/pod_json.hpp"

// The loader's and the saver's requests and limits by the pod and its CompileCache:
//
//   compilecache.dev/resources: save.requests.memory=128Mi, save.limits.memory=1Gi,
//   load.limits.cpu=4
//
// Pure.

namespace compilecache::webhook {

struct ResourceWishes {
  api::AgentResources resources;
  // Why the annotation counts for nothing; "" where it counts, or where there is none.
  std::string warning;
};

// The CompileCache's with the pod's annotation over them. Amounts change nothing of what is loaded
// and saved, so unlike the other annotations one that cannot be used does not keep the pod from
// being injected.
ResourceWishes resource_wishes(const Json& pod, const api::AgentResources& of_cache);

}  // namespace compilecache::webhook
