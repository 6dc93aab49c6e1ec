#include "cli/prewarm/prewarm_watch.hpp"

#include <set>

#include "api/outcomes.hpp"
#include "base/duration.hpp"
#include "cli/text/outcome_reasons.hpp"
#include "kube/json.hpp"

namespace compilecache::cli {
namespace {

using nlohmann::json;
using State = PrewarmNews::State;

// A pod that has ended may have committed a moment ago.
constexpr std::chrono::seconds kLastCommit{30};

const json& list_at(const json& pod, const char* pointer) {
  static const json kNone = json::array();
  const json::json_pointer path(pointer);
  return pod.contains(path) && pod.at(path).is_array() ? pod.at(path) : kNone;
}

// Why the scheduler has not placed it; empty: it has, or has said nothing.
std::string unscheduled(const json& pod) {
  for (const json& condition : list_at(pod, "/status/conditions")) {
    if (kube::string_at(condition, {"type"}) != "PodScheduled" ||
        kube::string_at(condition, {"status"}) != "False") {
      continue;
    }
    const std::string message = kube::string_at(condition, {"message"});
    return message.empty() ? kube::string_at(condition, {"reason"}) : message;
  }
  return "";
}

// Reasons of a waiting container that rarely end by waiting. Source: the kubelet's
// pkg/kubelet/images/types.go and container/sync_result.go.
std::string stuck(const json& pod) {
  static const std::set<std::string> kStuckReasons{
      "ErrImagePull",         "ImagePullBackOff",           "InvalidImageName",
      "ErrImageNeverPull",    "ImageInspectError",          "RegistryUnavailable",
      "CreateContainerError", "CreateContainerConfigError", "RunContainerError",
      "CrashLoopBackOff"};
  for (const char* list : {"/status/initContainerStatuses", "/status/containerStatuses"}) {
    for (const json& container : list_at(pod, list)) {
      const std::string reason = kube::string_at(container, {"state", "waiting", "reason"});
      if (!kStuckReasons.contains(reason)) continue;
      const std::string message = kube::string_at(container, {"state", "waiting", "message"});
      return "its container " + kube::string_at(container, {"name"}) +
             " does not start: " + reason + (message.empty() ? "" : ", " + message);
    }
  }
  return "";
}

bool all_ready(const json& pod) {
  const json& containers = list_at(pod, "/status/containerStatuses");
  if (containers.empty()) return false;
  for (const json& container : containers) {
    if (!container.value("ready", false)) return false;
  }
  return true;
}

std::string how_it_failed(const json& pod) {
  const std::string reason = kube::string_at(pod, {"status", "reason"});
  const std::string message = kube::string_at(pod, {"status", "message"});
  if (!reason.empty()) return reason + (message.empty() ? "" : ", " + message);
  for (const json& container : list_at(pod, "/status/containerStatuses")) {
    const json::json_pointer path("/state/terminated");
    if (!container.contains(path)) continue;
    const int code = container.at(path).value("exitCode", 0);
    if (code == 0) continue;
    return "its container " + kube::string_at(container, {"name"}) + " ended with status " +
           std::to_string(code);
  }
  return "the kubelet says no reason";
}

std::string why_not_saved(const api::RecentPod& told) {
  const OutcomeReason* known = find_save_reason(told.save_reason);
  std::string text = told.save_reason.empty() ? told.save : told.save_reason;
  if (known != nullptr) {
    text += ": " + std::string(known->why);
    if (!known->change.empty()) text += "; " + std::string(known->change);
  }
  return text;
}

std::string text_of(const api::ArchiveHead& head) {
  std::string text = "archive generation " + std::to_string(head.generation) + ", " +
                     std::to_string(head.files) + " files";
  if (head.compile_seconds >= 1) {
    text += ", " + std::to_string(static_cast<int64_t>(head.compile_seconds)) + " s of compiling";
  }
  return text;
}

bool saved(const PrewarmSight& sight) {
  return sight.archive && is_usable(*sight.archive) &&
         sight.archive->head.generation > sight.generation_before &&
         sight.archive->lock.holder.empty();
}

// The pod had nothing to add to what it loaded: the next one finds the same.
bool nothing_to_add(const PrewarmSight& sight) {
  if (!sight.told) return false;
  const auto load = api::parse_word<api::LoadOutcome>(sight.told->load);
  return load && api::is_warm(*load) &&
         api::parse_word<api::Effect>(sight.told->effect) == api::Effect::kFull;
}

// The first of the pod's own containers that has not been started yet, with the kubelet's word for
// it. While an image is pulled that is "PodInitializing" or "ContainerCreating".
std::string not_started(const json& pod) {
  for (const json& container : list_at(pod, "/status/containerStatuses")) {
    const std::string reason = kube::string_at(container, {"state", "waiting", "reason"});
    if (!reason.empty() && container.value("restartCount", 0) == 0)
      return kube::string_at(container, {"name"}) + " (" + reason + ")";
  }
  return "";
}

std::string now_doing(const PrewarmSight& sight, bool ready) {
  if (sight.archive && !sight.archive->lock.holder.empty()) return "saving";
  if (saved(sight)) return "saved, and not ready yet";
  if (ready) return "ready, not saved yet";
  if (!sight.told) return "starting";
  const std::string waits = not_started(*sight.pod);
  return waits.empty() ? "compiling, or loading its model"
                       : "pulling the image of its container " + waits + ", or starting it";
}

}  // namespace

bool is_usable(const api::CompileCacheArchive& archive) {
  return archive.head.exists() && !api::is_suspect(archive) && !api::is_corrupt(archive);
}

void PrewarmSight::take_archive(std::vector<api::CompileCacheArchive> archives,
                                const std::map<std::string, int64_t>& before,
                                const std::string& pod_name) {
  // Other pods save meanwhile, for other CPUs.
  const auto rank = [&](const api::CompileCacheArchive& one, int64_t known) {
    const bool newer = one.head.generation > known;
    if (newer && one.head.saved_by == pod_name) return 3;
    return newer || !one.lock.holder.empty() ? 2 : 1;
  };
  int best = 0;
  for (api::CompileCacheArchive& one : archives) {
    const auto found = before.find(one.metadata.name);
    const int64_t known = found == before.end() ? 0 : found->second;
    if (rank(one, known) <= best) continue;
    best = rank(one, known);
    archive = std::move(one);
    generation_before = known;
  }
}

PrewarmNews PrewarmWatch::wait_for(Hold hold, const std::string& what,
                                   std::chrono::milliseconds patience, Monotonic now) {
  if (hold != hold_) held_since_ = now;
  hold_ = hold;
  if (now - held_since_ >= patience) return {State::kFailed, what};
  return {State::kUnderWay, what};
}

PrewarmNews PrewarmWatch::look(const PrewarmSight& sight, Monotonic now) {
  if (!sight.pod) return {State::kFailed, "somebody deleted the pod"};
  const json& pod = *sight.pod;
  const std::string phase = kube::string_at(pod, {"status", "phase"});
  const bool ended = phase == "Succeeded";
  const bool ready = ended || all_ready(pod);
  if (ready && saved(sight))
    return {State::kWarm, text_of(sight.archive->head), sight.archive->metadata.name};
  if (ready && nothing_to_add(sight)) {
    const std::string& archive = sight.told->archive;
    return {State::kWarm, "nothing to add to " + archive + ", which pods load", archive};
  }
  if (phase == "Failed") return {State::kFailed, "the pod failed: " + how_it_failed(pod)};
  if (sight.told && (sight.told->save == "refused" || sight.told->save == "failed")) {
    return wait_for(Hold::kNotSaved, "not saved: " + why_not_saved(*sight.told), patience_.stuck,
                    now);
  }
  if (ended)
    return wait_for(Hold::kEnded, "the pod has ended, and nothing was saved", kLastCommit, now);
  // Between two attempts the kubelet may say no more than that the container waits.
  std::string why_stuck = stuck(pod);
  if (why_stuck.empty() && !not_started(pod).empty()) why_stuck = stuck_;
  stuck_ = why_stuck;
  if (now - start_ >= patience_.all) {
    return {State::kFailed, "not warm after " + format_duration(patience_.all) + ": " +
                                (why_stuck.empty() ? now_doing(sight, ready) : why_stuck)};
  }
  if (kube::string_at(pod, {"spec", "nodeName"}).empty()) {
    const std::string why = unscheduled(pod);
    return wait_for(Hold::kUnscheduled,
                    why.empty() ? "waiting for the scheduler" : "cannot be scheduled: " + why,
                    patience_.unscheduled, now);
  }
  if (!why_stuck.empty()) return wait_for(Hold::kStuck, why_stuck, patience_.stuck, now);
  hold_ = Hold::kNone;
  return {State::kUnderWay, now_doing(sight, ready)};
}

}  // namespace compilecache::cli
