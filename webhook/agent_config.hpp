#pragma once

#include <string>
#include <vector>

#include "api/agent_config.hpp"
#include "api/compile_cache.hpp"
#include "webhook/annotations.hpp"
#include "webhook/directories.hpp"
#include "webhook/pod_json.hpp"
#include "webhook/settings.hpp"

// The configuration of the loader and the saver: the CompileCache's spec, the pod's annotations
// that override it, and what the pod contributes to the key of its archive. Pure.

namespace compilecache::webhook {

struct AgentConfigInput {
  const Json& pod;
  const std::string& ns;
  const api::CompileCache& cache;
  const api::StoreRef& store;  // the CompileCache's
  const PodAnnotations& annotations;
  const Selection& selection;
  const DirectoryPlan& directories;
  const std::vector<const frameworks::Framework*>& frameworks;
  const InjectionSettings& settings;
  int64_t more_storage = 0;  // ResourcePlan::more_storage
};
api::AgentConfig make_agent_config(const AgentConfigInput& input);

}  // namespace compilecache::webhook
