#pragma once

#include <string>
#include <vector>

#include "api/agent_config.hpp"
#include "podspec/environment.hpp"
#include "webhook/annotations.hpp"
#include "webhook/decision.hpp"
#include "webhook/injection.hpp"
#include "webhook/resources.hpp"
#include "webhook/selection.hpp"
#include "webhook/volumes.hpp"

// All decisions about one pod. Pure.

namespace compilecache::webhook {

// Everything that goes into the pod, decided before anything is changed.
struct Injection {
  std::string cache;
  std::string after;  // the init container before the injected ones; empty: none
  Selection selection;
  std::vector<podspec::Volume> volumes;
  // Our init containers: names, and as JSON. None: only variables are injected.
  std::vector<std::string> agent_names, agents;
  ResourcePlan resources;
  // One environment for each chosen container, in their order.
  std::vector<std::vector<podspec::Variable>> environments;
  std::vector<podspec::Mount> mounts;
  std::string safe_to_evict;  // the whole annotation; "" without injected volumes
  std::vector<std::string> warnings;
  api::InjectionStatus status;
};

// For a pod that carries no injection, whose CompileCache takes pods (eligibility.hpp).
Decided<Injection> plan_injection(const InjectionInput& input, const Json& pod,
                                  const PodAnnotations& annotations);

}  // namespace compilecache::webhook
