#include "operator/breaker/startup_diagnosis.hpp"

#include <algorithm>
#include <vector>

#include "api/names.hpp"
#include "base/strings.hpp"

namespace compilecache::controller {
namespace {

// A saver may be killed now and then beside a running application; the kubelet says when it becomes
// a habit (CrashLoopBackOff is reset after 10 minutes of peace).
constexpr int kSaverRestarts = 3;
constexpr size_t kLongestSign = 240;

bool has_words(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

bool is_our_container(const ContainerView& container) {
  return container.name == api::kLoaderContainer || container.name == api::kSaverContainer;
}

const ContainerView* find_container(const PodView& pod, std::string_view name) {
  if (pod.containers == nullptr) return nullptr;
  for (const ContainerView& container : *pod.containers) {
    if (container.name == name) return &container;
  }
  return nullptr;
}

bool has_ended(const ContainerView& container) {
  return !container.running && container.waiting_reason.empty() && !container.ended_reason.empty();
}

bool has_failed(const ContainerView& container) {
  return !container.ended_reason.empty() && container.exit_code != 0;
}

// Also again, after the pod's sandbox was recreated; how it ended before does not matter then.
bool is_being_made(const ContainerView& container) {
  const std::string& reason = container.waiting_reason;
  if (reason == "PodInitializing" || reason == "ContainerCreating") return true;
  return !container.running && reason.empty() && container.ended_reason.empty();
}

// The words of the kubelet (pkg/kubelet/images/types.go, kubernetes v1.35).
bool is_about_the_image(const std::string& reason) {
  static constexpr std::string_view kWords[] = {
      "ErrImagePull",      "ImagePullBackOff",    "ErrImageNeverPull",        "InvalidImageName",
      "ImageInspectError", "RegistryUnavailable", "SignatureValidationFailed"};
  return std::find(std::begin(kWords), std::end(kWords), reason) != std::end(kWords);
}

PodSign sign_of_trouble(Trouble what, std::string text, Duration patience) {
  if (text.size() > kLongestSign) text = std::string(first_bytes(text, kLongestSign)) + "...";
  return {PodSign::Kind::kTrouble, what, std::move(text), patience};
}

PodSign sign_of_failure(const ContainerView& container, Duration patience) {
  const bool memory = container.ended_reason == "OOMKilled";
  return sign_of_trouble(
      memory ? Trouble::kMemory : Trouble::kExit,
      "container " + container.name + " ended with status " + std::to_string(container.exit_code) +
          " (" + container.ended_reason +
          (container.restarts > 0 ? ", restarted " + std::to_string(container.restarts) + " times)"
                                  : ")"),
      patience);
}

// The trouble with an injected container, as long as nothing of the user's runs.
PodSign sign_of(const ContainerView& container, Duration patience) {
  if (container.running || is_being_made(container)) return {};
  const std::string& reason = container.waiting_reason;
  if (is_about_the_image(reason)) {
    return sign_of_trouble(
        Trouble::kImage,
        "container " + container.name + " waits: " + reason + ": " + container.waiting_message,
        patience);
  }
  if (has_failed(container)) return sign_of_failure(container, patience);
  // A saver never ends by itself: the kubelet ends one whose hook it cannot run, and starts it
  // again and again (seen: kubelet 1.35 tells of the end, not of the hook).
  if (container.name == api::kSaverContainer && !container.ended_reason.empty() &&
      (reason.empty() || reason == "CrashLoopBackOff")) {
    return sign_of_trouble(Trouble::kStart,
                           "container " + container.name +
                               " was ended before the application started; the pod's Events "
                               "(FailedPostStartHook) say why",
                           patience);
  }
  if (reason.empty() || reason == "CrashLoopBackOff") return {};
  return sign_of_trouble(
      Trouble::kStart,
      "container " + container.name + " waits: " + reason + ": " + container.waiting_message,
      patience);
}

// Beside an application that runs: the pod is out of its Service while the saver is not there.
PodSign sign_of_saver(const ContainerView& saver, Duration patience) {
  if (saver.waiting_reason == "CrashLoopBackOff") {
    if (saver.restarts >= kSaverRestarts && has_failed(saver))
      return sign_of_failure(saver, Duration(0));
    return {};
  }
  if (saver.running) return {PodSign::Kind::kPast, {}, {}, {}};
  // Between two tries it has just ended.
  return saver.waiting_reason.empty() ? PodSign{} : sign_of(saver, patience);
}

// What stands between `begin` and the next `end`.
std::string_view words_between(std::string_view text, std::string_view begin, char end) {
  const size_t from = text.find(begin);
  if (from == std::string_view::npos) return {};
  const size_t start = from + begin.size();
  const size_t to = text.find(end, start);
  return to == std::string_view::npos ? std::string_view{} : text.substr(start, to - start);
}

bool is_our_volume(std::string_view name, const PodView& pod, const VolumeSight& volume) {
  if (name.empty()) return false;
  if (name == volume.volume) return true;
  const auto& ours = pod.injection->volumes;
  return std::find(ours.begin(), ours.end(), name) != ours.end();
}

// Our containers have let it through, this time: after a restart of its sandbox they run again.
bool is_through(const PodView& pod, const ContainerView* loader) {
  if (pod.containers == nullptr) return false;
  const bool runs = std::any_of(
      pod.containers->begin(), pod.containers->end(),
      [](const auto& container) { return !is_our_container(container) && container.running; });
  if (runs) return true;
  return !has_started_nothing(pod) &&
         (loader == nullptr || (has_ended(*loader) && !has_failed(*loader)));
}

}  // namespace

std::string_view to_string(Trouble trouble) {
  switch (trouble) {
    case Trouble::kImage:
      return "ImageNotPulled";
    case Trouble::kStart:
      return "ContainerNotStarted";
    case Trouble::kExit:
      return "ContainerFails";
    case Trouble::kMemory:
      return "OutOfMemory";
    case Trouble::kMount:
      return "ClaimNotMounted";
    case Trouble::kUnschedulable:
      return "Unschedulable";
    case Trouble::kRefused:
      return "PodsRefused";
    case Trouble::kSlowLoader:
      break;
  }
  return "LoaderTooSlow";
}

bool has_started_nothing(const PodView& pod) {
  if (pod.containers == nullptr) return true;
  return std::none_of(pod.containers->begin(), pod.containers->end(), [](const auto& container) {
    return !is_our_container(container) &&
           (container.running || !container.ended_reason.empty() || container.restarts > 0);
  });
}

PodSign read_sign(const PodView& pod, const VolumeSight& volume, const SignRules& rules) {
  using Kind = PodSign::Kind;
  // Without injected containers (a remote cache alone) the injection cannot hold it.
  if (pod.deleting || pod.disrupted || pod.injection == nullptr ||
      pod.injection->init_containers.empty()) {
    return {};
  }
  const ContainerView* loader = find_container(pod, api::kLoaderContainer);
  const ContainerView* saver = find_container(pod, api::kSaverContainer);
  if (pod.ended()) {
    // restartPolicy Never: one failure of the loader is the end of the pod.
    if (pod.phase == "Failed" && loader != nullptr && has_failed(*loader) &&
        has_started_nothing(pod)) {
      return sign_of_failure(*loader, Duration(0));
    }
    return {has_started_nothing(pod) ? Kind::kNone : Kind::kPast, {}, {}, {}};
  }
  if (!pod.unschedulable.empty()) {
    if (!claim_leaves_no_node(pod.unschedulable, volume)) return {};
    return sign_of_trouble(Trouble::kUnschedulable, "it cannot be scheduled: " + pod.unschedulable,
                           rules.patience);
  }
  if (pod.node.empty() || pod.phase == "Unknown") return {};
  if (is_through(pod, loader)) {
    return saver == nullptr ? PodSign{Kind::kPast, {}, {}, {}}
                            : sign_of_saver(*saver, rules.patience);
  }
  for (const ContainerView* container : {loader, saver}) {
    if (container == nullptr) continue;
    if (PodSign sign = sign_of(*container, rules.patience); sign.kind == Kind::kTrouble) {
      return sign;
    }
  }
  // The kubelet tells of a sidecar that it runs when its hook, which loads, has ended.
  if (pod.injection->one_container() && saver != nullptr && saver->running) {
    return {Kind::kPast, {}, {}, {}};
  }
  if (loader == nullptr || is_being_made(*loader)) {
    if (pod.phase != "Pending") return {};
    return {Kind::kWaits, {}, {}, rules.patience};
  }
  if (loader->running) {
    const auto own = std::chrono::milliseconds(pod.injection->wait_for_first_ms);
    return {Kind::kLoads, {}, {}, rules.load_budget + own};
  }
  return {has_ended(*loader) ? Kind::kPast : Kind::kNone, {}, {}, {}};
}

// The scheduler's words: pkg/scheduler/framework/plugins/{volumebinding,volumezone}, kubernetes
// v1.35.
bool claim_leaves_no_node(std::string_view message, const VolumeSight& volume) {
  if (!volume.claim) return false;
  if (has_words(message, "persistentvolumeclaim \"" + *volume.claim + "\"")) return true;
  // Some node would do if it had room: the pod may be waiting for that, with us or without.
  if (has_words(message, "Insufficient ")) return false;
  if (!volume.bound && (has_words(message, "unbound immediate PersistentVolumeClaims") ||
                        has_words(message, "didn't find available persistent volumes to bind"))) {
    return true;
  }
  return volume.has_node_affinity && (has_words(message, "volume node affinity conflict") ||
                                      has_words(message, "no available volume zone"));
}

// The kubelet's words: pkg/kubelet/volumemanager/volume_manager.go,
// pkg/volume/util/operationexecutor and the attach controller's, kubernetes v1.35. They name a
// claim's volume by the PersistentVolume while it is attached and set up, and by the pod's name for
// it in the list of what is not mounted.
bool is_about_our_volume(std::string_view message, const PodView& pod, const VolumeSight& volume) {
  if (pod.injection == nullptr) return false;
  if (has_words(message, "unmounted volumes=[")) {
    const std::string_view names = words_between(message, "unmounted volumes=[", ']');
    bool any = false;
    for (const std::string& name : split(names, ' ')) {
      if (name.empty()) continue;
      if (!is_our_volume(name, pod, volume)) return false;
      any = true;
    }
    return any;
  }
  return is_our_volume(words_between(message, "for volume \"", '"'), pod, volume);
}

}  // namespace compilecache::controller
