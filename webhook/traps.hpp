#pragma once

#include <string>
#include <vector>

#include "frameworks/framework.hpp"
#include "frameworks/trap.hpp"
#include "webhook/pod_json.hpp"
#include "webhook/selection.hpp"

// Warnings about known causes of a useless cache, or of an application that fails beside one,
// although the pod is injected. They are the traps of the settings, and variables from a ConfigMap
// or Secret (envFrom), which are not visible and which the injected ones override. Pure.
//
// A warning fits into the 256 bytes that an API server passes on.

namespace compilecache::webhook {

struct TrapInput {
  const Json& pod;
  const Selection& selection;
  const std::vector<const frameworks::Framework*>& frameworks;  // that are injected
  const std::vector<const frameworks::Framework*>& wanted;      // those and the ones left alone
  const std::vector<frameworks::Trap>& traps;
};
std::vector<std::string> trap_warnings(const TrapInput& input);

// Warnings for pods that get a Redis server's variables: what their image needs besides.
std::vector<std::string> remote_cache_warnings(
    const Json& pod, const Selection& selection,
    const std::vector<const frameworks::Framework*>& frameworks);

// A warning for a pod of one of Kueue's groups whose role has no name, or nothing. Kueue 0.17
// distinguishes the roles of such pods by a hash that covers init containers. So a pod that is not
// injected does not replace one that was, unless the annotation kueue.x-k8s.io/role-hash names the
// role (docs/reference/controllers.md). Controllers of groups name it themselves.
std::vector<std::string> pod_group_warnings(const Json& pod);

}  // namespace compilecache::webhook
