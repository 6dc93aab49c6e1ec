#include "operator/agents/load_service.hpp"

#include <algorithm>
#include <utility>

#include "base/log.hpp"
#include "operator/archives/rank_records.hpp"
#include "operator/archives/save_rules.hpp"

namespace compilecache::controller {

using std::chrono::milliseconds;

LoadService::LoadService(Parts parts, std::vector<LoadSink> sinks)
    : parts_(parts), sinks_(std::move(sinks)) {}

LoadSituation LoadService::situation_of(const Caller& caller,
                                        const api::LoadRequest& request) const {
  const api::CompileCacheSpec& spec = caller.cache->spec;
  LoadSituation situation{.cache = caller.cache->metadata.name, .key = key_of(parts_.view, caller)};
  situation.archives = parts_.view.archives_of(caller.ns(), situation.cache);
  // Those of an earlier CompileCache of this name were deleted with it.
  std::erase_if(situation.archives, [&](const auto& archive) {
    return archive->cache_uid != caller.cache->metadata.uid;
  });
  situation.mode = caller.pod->injection->mode;
  situation.fallback_compatible = spec.load.fallback == api::LoadFallback::kCompatible;
  situation.timeout = spec.load.timeout;
  situation.wait_for_first = milliseconds(caller.pod->injection->wait_for_first_ms);
  situation.label_wait = parts_.settings.agent.label_wait;
  situation.waited = milliseconds(std::max<int64_t>(0, request.waited_ms));
  situation.waited_for_place =
      std::min(milliseconds(std::max<int64_t>(0, request.waited_for_place_ms)), situation.waited);
  situation.spread = static_cast<double>(std::hash<std::string>{}(caller.pod->uid) % 1000) / 1000;
  return situation;
}

Result<api::LoadAnswer> LoadService::load(const Caller& caller, const api::LoadRequest& request) {
  if (const Status ok = check_application(caller, request.cache); !ok) {
    return unexpected(ok.error());
  }
  LoadSituation situation = situation_of(caller, request);
  api::LoadAnswer answer = decide_load(situation);
  judge_first(caller, answer, situation);
  if (situation.first_is_compiling) answer = decide_load(situation);
  const auto& store = caller.store;
  if (answer.decision == api::LoadDecision::kLoad && store &&
      !parts_.traffic.begin(store->id(), caller.pod->uid, milliseconds(answer.budget_ms))) {
    situation.too_many_loads = true;
    situation.waiting = parts_.traffic.waiting(store->id());
    answer = decide_load(situation);
  }
  if (answer.decision == api::LoadDecision::kLoad) {
    answer.rank_directories = ranks_of(caller, situation, answer.archive);
  }
  // The kubelet ends a pod only after its sidecar's hook, which waits here.
  if (answer.decision == api::LoadDecision::kWait && caller.pod->deleting) {
    answer.decision = api::LoadDecision::kNone;
    answer.reason = "pod_ends";
  }
  // A pod that waits asks again and again.
  if (answer.decision == api::LoadDecision::kWait && request.waited_ms > 0) return answer;
  log_info("load decided",
           {{"reason", answer.match ? std::string(api::to_string(answer.match)) : answer.reason},
            {"decision", std::string(api::to_string(answer.decision))},
            {"namespace", caller.ns()},
            {"cache", situation.cache},
            {"pod", caller.pod->name},
            {"archive", answer.archive},
            {"gpu_product", answer.gpu_product}});
  return answer;
}

std::vector<std::string> LoadService::ranks_of(const Caller& caller, const LoadSituation& situation,
                                               const std::string& archive) {
  for (const auto& known : situation.archives) {
    if (known->metadata.name == archive) return own_ranks(caller.pod->group.member, known->ranks);
  }
  return {};
}

Status LoadService::loaded(const Caller& caller, const api::LoadedReport& report) {
  if (const Status ok = check_application(caller, report.cache); !ok) return ok;
  if (const auto& store = caller.store) parts_.traffic.end(store->id(), caller.pod->uid);
  if (report.reason == "corrupt" || !report.corrupt_digest.empty()) {
    parts_.wishes.distrust(
        caller, report.archive,
        report.corrupt_digest.empty() ? report.manifest_digest : report.corrupt_digest);
  }
  parts_.wishes.want_if_it_helps(caller, report.reason);
  const bool again = report.outcome == api::Outcome::kSkipped &&
                     parts_.stats.load_of(caller.key(), caller.pod->uid).has_value();
  if (again) return {};  // init containers ran again over a directory that is filled
  const HeardLoad heard = hear_load(parts_.view, caller, report, parts_.clock.wall());
  for (const LoadSink& sink : sinks_) sink(caller, heard);
  return {};
}

// Whether the pod goes on as one that compiles for others: one whose application cannot start, or
// has been started again, is waited for in vain.
bool LoadService::compiles_on(const std::string& ns, const std::string& name,
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

// The pods of a group compile only together: one that is held up would hold up the first, for which
// it is held.
bool LoadService::goes_with_first(const Caller& caller, const std::string& archive) const {
  const std::string& group = caller.pod->group.id;
  if (group.empty()) return false;
  const auto first = parts_.view.pod(caller.ns(), parts_.traffic.first(archive));
  return first != nullptr && first->group.id == group;
}

// Half of what others wait for the pod, as their first: then the next one has the other half.
// Nothing for one that may not save.
milliseconds LoadService::tenure_of(const Caller& caller, const LoadSituation& situation) const {
  const bool can_save = situation.mode != api::Mode::kReadOnly &&
                        refusal(parts_.contexts.of(caller, *situation.key)).empty();
  if (!can_save) return milliseconds(0);
  const bool waits = situation.wait_for_first > milliseconds(0);
  return (waits ? situation.wait_for_first : caller.cache->spec.load.wait_for_first) / 2;
}

// Single flight: who asks first goes ahead, the others may wait for its archive. `decided` is what
// the pod gets if nobody is waited for.
void LoadService::judge_first(const Caller& caller, const api::LoadAnswer& decided,
                              LoadSituation& situation) const {
  if (!situation.key) return;
  const std::string archive = archive_of(caller, *situation.key);
  if (goes_with_first(caller, archive)) return;
  const auto alive = [&](const std::string& pod, const std::string& uid) {
    return compiles_on(caller.ns(), pod, uid);
  };
  const bool waits = situation.wait_for_first > milliseconds(0);
  const PodView& pod = *caller.pod;
  if (decided.decision == api::LoadDecision::kNone && situation.mode != api::Mode::kRefresh) {
    const milliseconds tenure = tenure_of(caller, situation);
    if (waits) {
      situation.first_is_compiling =
          parts_.traffic.goes_second(archive, pod.name, pod.uid, tenure, alive);
    } else {
      parts_.traffic.goes_ahead(archive, pod.name, pod.uid, tenure, alive);
    }
  } else if (waits && decided.decision == api::LoadDecision::kLoad &&
             decided.match == api::Match::kExact) {
    situation.first_is_compiling = parts_.traffic.holds(archive, pod.uid, alive);
  }
  if (situation.first_is_compiling) situation.waiting = parts_.traffic.waiting(archive);
}

}  // namespace compilecache::controller
