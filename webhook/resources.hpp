#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/agent_resources.hpp"
#include "webhook/decision.hpp"
#include "webhook/namespace_facts.hpp"
#include "webhook/pod_json.hpp"
#include "webhook/pod_resources.hpp"
#include "webhook/selection.hpp"
#include "webhook/settings.hpp"

// Requests and limits of the loader and the saver. The pod keeps its QoS class, its autoscaler goes
// on working, and the namespace accepts it:
//
//   - none, where the pod has pod-level resources or no container has any; beside the former only
//     what a LimitRange would else fill in, larger
//   - requests, where every app container has them (an autoscaler needs them) or the namespace
//     wants them
//   - limits, only where the pod is Guaranteed or a ResourceQuota or LimitRange wants them
//   - the loader never asks for more than the app, beside which it does not run: it costs nothing
//   - all of it within the LimitRange
//
// The amounts of the CompileCache or the pod's annotation (resource_wishes.hpp) replace the
// settings' amounts, and apply always; the rules above stay. Amounts without room are left out, and
// a warning says so.
//
// Pure.

namespace compilecache::webhook {

struct ResourcePlan {
  ContainerAmounts loader, saver;  // empty: none
  // By which the saver's limit raises what the pod may keep on its node's disk, as wanted; bytes.
  int64_t more_storage = 0;
  std::vector<std::string> warnings;
};

struct ResourceInput {
  const Json& pod;
  const Selection& selection;
  const NamespaceFacts& facts;
  const InjectionSettings& settings;
  const api::AgentResources& wishes;
  bool cache_in_memory = false;  // DirectoryPlan::in_memory
  // One container loads and saves: it is the saver, and gets what is wanted of either.
  bool one_container = false;
};
ResourcePlan plan_resources(const ResourceInput& input);

// Skips with kNoRoomInQuota or kNoRoomInLimitRange where the namespace would refuse the pod because
// of our containers. A pod that it would refuse without us too is injected all the same.
Decided<void> check_room(const Json& pod, const ResourcePlan& plan, const NamespaceFacts& facts);

}  // namespace compilecache::webhook
