#pragma once

#include <string>
#include <vector>

#include "api/agent_api.hpp"
#include "operator/agents/caller.hpp"
#include "operator/agents/load_decision.hpp"
#include "operator/agents/load_traffic.hpp"
#include "operator/settings/settings.hpp"

// The steps that the leader and the other replicas share to answer a load
// (operator/agents/load_service, operator/agents/follower_loads).
//
//   if (Status ok = check_load(caller, request); !ok) ...
//   LoadSituation situation = load_situation(view, settings, caller, request);
//   api::LoadAnswer answer = decide_load(situation);
//   const bool loads = answer.decision == api::LoadDecision::kLoad;
//   if (loads && !take_place(traffic, caller, answer, situation)) ...
//
// Thread-safe.

namespace compilecache::controller {

// kForbidden: it is no application's pod, or of another CompileCache. kInvalid.
Status check_load(const Caller& caller, const api::LoadRequest& request);

// The facts of the cluster and the request, without the replica's memory of earlier requests.
LoadSituation load_situation(const ClusterView& view, const Settings& settings,
                             const Caller& caller, const api::LoadRequest& request);

// Takes the pod's place among those that load from its store; where there is none, notes why in
// the situation.
bool take_place(LoadTraffic& traffic, const Caller& caller, const api::LoadAnswer& decided,
                LoadSituation& situation);

// The folders of that archive that the pod's place in its group reads.
std::vector<std::string> ranks_of(const Caller& caller, const LoadSituation& situation,
                                  const std::string& archive);

// For the log.
void log_decision(const Caller& caller, const LoadSituation& situation,
                  const api::LoadAnswer& answer, const char* by);

}  // namespace compilecache::controller
