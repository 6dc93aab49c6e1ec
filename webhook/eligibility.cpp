#include "webhook/eligibility.hpp"

#include <algorithm>

#include "api/names.hpp"
#include "base/strings.hpp"
#include "podspec/environment.hpp"

namespace compilecache::webhook {

namespace {

using api::InjectionReason;
using frameworks::Framework;

constexpr char kMirrorAnnotation[] = "kubernetes.io/config.mirror";

std::string explained(const std::string& start, const api::Condition* condition) {
  if (condition == nullptr || condition->message.empty()) return start;
  return start + ": " + condition->message;
}

}  // namespace

Decided<void> check_pod_kind(const InjectionInput& input) {
  const auto& excluded = input.settings.excluded_namespaces;
  if (std::find(excluded.begin(), excluded.end(), input.ns) != excluded.end()) {
    return skip(InjectionReason::kNamespaceExcluded);
  }
  if (!wanted_cache(input.pod)) return skip(InjectionReason::kNotAnnotated);
  if (annotation(input.pod, kMirrorAnnotation)) return skip(InjectionReason::kMirrorPod);
  const Json& spec = spec_of(input.pod);
  const bool windows =
      text_member(object_member(spec, "os"), "name") == "windows" ||
      text_member(object_member(spec, "nodeSelector"), "kubernetes.io/os") == "windows";
  if (windows) return skip(InjectionReason::kWindowsPod);
  return {};
}

Decided<void> check_cache(const InjectionInput& input, const PodAnnotations& annotations) {
  const std::string name = "CompileCache \"" + annotations.cache + "\"";
  if (input.cache == nullptr) {
    return skip(InjectionReason::kCacheNotFound,
                "there is no " + name + " in namespace \"" + std::string(input.ns) +
                    "\"; create it or correct the annotation " + api::kCacheAnnotation);
  }
  if (input.cache->metadata.deleting) return skip(InjectionReason::kCacheDeleting);
  const auto& conditions = input.cache->status.conditions;
  if (api::is_true(conditions, api::kInjectionPausedCondition)) {
    return skip(InjectionReason::kInjectionPaused,
                explained("injection for " + name + " is paused",
                          api::find_condition(conditions, api::kInjectionPausedCondition)));
  }
  if (!api::is_true(conditions, api::kStorageReadyCondition)) {
    return skip(InjectionReason::kCacheNotReady,
                explained("the storage of " + name + " is not ready",
                          api::find_condition(conditions, api::kStorageReadyCondition)));
  }
  if (!input.settings.native_sidecars && input.cache->spec.storage) {
    return skip(InjectionReason::kKubeletTooOld);
  }
  return {};
}

Decided<std::vector<const Framework*>> select_frameworks(const InjectionInput& input,
                                                         const PodAnnotations& annotations) {
  const bool by_pod = !annotations.frameworks.empty();
  const auto& wanted = by_pod ? annotations.frameworks : input.cache->spec.frameworks;
  std::vector<const Framework*> selected;
  for (const std::string& name : wanted) {
    const auto found = input.settings.frameworks.find(name);
    if (found == input.settings.frameworks.end()) {
      std::vector<std::string> known;
      for (const auto& item : input.settings.frameworks) known.push_back(item.first);
      return skip(InjectionReason::kUnknownFramework,
                  std::string(by_pod ? api::kFrameworksAnnotation : "spec.frameworks") + ": \"" +
                      name + "\" is not a known framework; the operator's settings have " +
                      join(known, ", "));
    }
    if (std::find(selected.begin(), selected.end(), &found->second) == selected.end()) {
      selected.push_back(&found->second);
    }
  }
  return selected;
}

Decided<void> check_names(const Json& pod, const std::vector<podspec::Volume>& volumes,
                          const PodAnnotations& annotations) {
  for (const char* list : {"initContainers", "containers", "ephemeralContainers"}) {
    for (const char* name : {api::kLoaderContainer, api::kSaverContainer}) {
      if (find_named(array_member(spec_of(pod), list), name) != nullptr) {
        return skip(InjectionReason::kNameConflict,
                    "the pod has a container \"" + std::string(name) + "\" of its own; rename it");
      }
    }
  }
  for (const auto& [name, json] : volumes) {
    if (find_named(array_member(spec_of(pod), "volumes"), name) != nullptr) {
      return skip(InjectionReason::kNameConflict,
                  "the pod has a volume \"" + name + "\" of its own; rename it");
    }
  }
  const Json& labels = object_member(object_member(pod, "metadata"), "labels");
  const std::string label(text_member(labels, api::kCacheLabel));
  if (!label.empty() && label != annotations.cache) {
    return skip(InjectionReason::kNameConflict, "the pod has the label " +
                                                    std::string(api::kCacheLabel) + "=" + label +
                                                    ", which is ours; remove it");
  }
  return {};
}

}  // namespace compilecache::webhook
