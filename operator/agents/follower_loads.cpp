#include "operator/agents/follower_loads.hpp"

#include <string>

#include "operator/agents/load_situation.hpp"

namespace compilecache::controller {
namespace {

using std::chrono::milliseconds;

tl::unexpected<Error> ask_leader(const std::string& why) {
  return fail(ErrorCode::kUnavailable,
              "this replica of the operator does not lead, and " + why + "; try again");
}

}  // namespace

Result<api::LoadAnswer> FollowerLoads::load(const Caller& caller, const api::LoadRequest& request) {
  if (const Status ok = check_load(caller, request); !ok) return unexpected(ok.error());
  if (!caller.pod->group.id.empty()) {
    return ask_leader("the leader knows what the other pods of the group were given");
  }
  LoadSituation situation = load_situation(parts_.view, parts_.settings, caller, request);
  api::LoadAnswer answer = decide_load(situation);
  if (const Status fresh = parts_.fresh.confirm(caller, situation, answer); !fresh) {
    return unexpected(fresh.error());
  }
  if (answer.decision == api::LoadDecision::kWait) return ask_leader(answer.reason);
  if (answer.decision == api::LoadDecision::kNone) {
    if (situation.wait_for_first > milliseconds(0)) {
      return ask_leader("the leader knows for which pod to wait");
    }
  } else if (!take_place(parts_.traffic, caller, answer, situation)) {
    return ask_leader("too many pods load from this store");
  }
  answer.rank_directories = ranks_of(caller, situation, answer.archive);
  log_decision(caller, situation, answer, "follower");
  return answer;
}

Result<api::RegistryToken> FollowerTokens::token(const Caller& caller,
                                                 const api::RegistryTokenRequest& request) {
  if (request.push) return ask_leader("the leader knows who may save");
  return tokens_.token(caller, request);
}

}  // namespace compilecache::controller
