#include "operator/agents/load_service.hpp"

#include <algorithm>
#include <utility>

#include "operator/agents/load_situation.hpp"
#include "operator/archives/save_rules.hpp"

namespace compilecache::controller {

using std::chrono::milliseconds;

namespace {

// Longer than any load takes; agents' numbers are not to be believed blindly.
constexpr milliseconds kLongestLoad{3'600'000};

// How long the load itself took; zero where nothing was loaded.
milliseconds load_time(const api::LoadedReport& report) {
  if (report.outcome != api::Outcome::kSuccess) return milliseconds(0);
  const auto bounded = [](int64_t count) {
    return std::clamp(milliseconds(count), milliseconds(0), kLongestLoad);
  };
  return std::max(milliseconds(0), bounded(report.milliseconds) - bounded(report.waited_ms) -
                                       bounded(report.asked_ms));
}

}  // namespace

LoadService::LoadService(Parts parts, std::vector<LoadSink> sinks)
    : parts_(parts), sinks_(std::move(sinks)), groups_(parts.clock) {}

Result<api::LoadAnswer> LoadService::load(const Caller& caller, const api::LoadRequest& request) {
  if (const Status ok = check_load(caller, request); !ok) return unexpected(ok.error());
  if (!request.cpu.empty()) {
    parts_.pods.edit<PodHost>(caller.pod->uid, [&](PodHost& host) { host.cpu = request.cpu; });
  }
  LoadSituation situation = load_situation(parts_.view, parts_.settings, caller, request);
  if (situation.key) {
    situation.given_to_group = groups_.given(archive_of(caller, *situation.key), *caller.pod);
  }
  api::LoadAnswer answer = decide_load(situation);
  judge_first(caller, answer, situation);
  if (situation.first_is_compiling) answer = decide_load(situation);
  keep_to_group(caller, situation, answer);
  if (parts_.fresh != nullptr) {
    const Status fresh = parts_.fresh->confirm(caller, situation, answer);
    if (!fresh) return unexpected(fresh.error());
  }
  if (answer.decision == api::LoadDecision::kLoad &&
      !take_place(parts_.traffic, caller, answer, situation)) {
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
  log_decision(caller, situation, answer, "leader");
  return answer;
}

void LoadService::keep_to_group(const Caller& caller, LoadSituation& situation,
                                api::LoadAnswer& answer) {
  const bool loads = answer.decision == api::LoadDecision::kLoad;
  // A pod that compiles again, or was late, is cold for reasons of its own.
  const bool cold = answer.decision == api::LoadDecision::kNone &&
                    situation.mode != api::Mode::kRefresh && answer.reason != "too_many_loads";
  if (!situation.key || !(loads || cold)) return;
  const GroupAnswer mine =
      loads ? GroupAnswer{answer.archive, answer.manifest_digest} : GroupAnswer{};
  const GroupAnswer given = groups_.give(archive_of(caller, *situation.key), *caller.pod, mine);
  if (given == mine || situation.given_to_group == given) return;
  situation.given_to_group = given;
  answer = decide_load(situation);
}

Status LoadService::loaded(const Caller& caller, const api::LoadedReport& report) {
  if (const Status ok = check_application(caller, report.cache); !ok) return ok;
  if (const auto& store = caller.store) {
    parts_.traffic.end({store->id(), caller.ns()}, caller.pod->uid, report.bytes,
                       load_time(report));
  }
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
// was restarted, never comes.
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
  const std::string archive = flight_of(parts_.pods, caller, *situation.key);
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
