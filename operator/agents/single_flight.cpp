// Who waits for whom among cold pods of one key, part of agent_handlers.hpp; load_traffic.hpp keeps
// it.

#include <algorithm>

#include "operator/agents/agent_handlers.hpp"
#include "operator/agents/load_decision.hpp"
#include "operator/archives/save_rules.hpp"

namespace compilecache::controller {

using std::chrono::milliseconds;

// Whether the pod goes on as one that compiles for others: one whose application cannot start, or
// has been started again, is waited for in vain.
bool AgentHandlers::compiles_on(const std::string& ns, const std::string& name,
                                const std::string& uid) const {
  const auto pod = parts_.view.pod(ns, name);
  if (pod == nullptr || pod->uid != uid || pod->deleting || pod->ended()) return false;
  if (pod->containers == nullptr) return true;
  // ErrImagePull, CreateContainerConfigError, ImagePullBackOff, CrashLoopBackOff, InvalidImageName
  const auto fails = [](const std::string& waiting) {
    return waiting.find("Err") != std::string::npos ||
           waiting.find("BackOff") != std::string::npos || waiting.starts_with("Invalid");
  };
  return std::none_of(pod->containers->begin(), pod->containers->end(), [&](const auto& container) {
    return !container.init && (container.restarts > 0 || fails(container.waiting_reason));
  });
}

// Single flight: who asks first goes ahead, the others may wait for its archive. `decided` is what
// the pod gets if nobody is waited for.
void AgentHandlers::judge_first(const Caller& caller, const api::LoadAnswer& decided,
                                LoadSituation& situation) {
  if (!situation.key || situation.wait_for_first <= milliseconds(0)) return;
  const std::string archive =
      caller.ns() + "/" + api::archive_name(situation.cache, *situation.key);
  const auto alive = [&](const std::string& pod, const std::string& uid) {
    return compiles_on(caller.ns(), pod, uid);
  };
  if (decided.decision == api::LoadDecision::kLoad && decided.match == api::Match::kExact) {
    situation.first_is_compiling = parts_.traffic.holds(archive, caller.pod->uid, alive);
  } else if (decided.decision == api::LoadDecision::kNone &&
             situation.mode != api::Mode::kRefresh) {
    // Half of what the others wait for it: then the next one has the other half.
    const bool can_save = situation.mode != api::Mode::kReadOnly &&
                          refusal(save_context(caller, *situation.key)).empty();
    situation.first_is_compiling = parts_.traffic.goes_second(
        archive, caller.pod->name, caller.pod->uid,
        can_save ? situation.wait_for_first / 2 : milliseconds(0), alive);
  }
  if (situation.first_is_compiling) situation.waiting = parts_.traffic.waiting(archive);
}

}  // namespace compilecache::controller
