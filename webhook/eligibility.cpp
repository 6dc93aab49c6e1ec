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
constexpr char kOsLabel[] = "kubernetes.io/os";
constexpr std::string_view kWindows = "windows";

std::string explained(const std::string& start, const api::Condition* condition) {
  if (condition == nullptr || condition->message.empty()) return start;
  return start + ": " + condition->message;
}

// Of the pod or of a container. The API server takes none in a pod of another system.
bool has_windows_options(const Json& object) {
  const Json& options = member(object_member(object, "securityContext"), "windowsOptions");
  return members(options).MemberCount() > 0;
}

// Whether every node that the term of an affinity allows runs Windows.
bool allows_windows_only(const Json& term) {
  const auto expressions = array_member(term, "matchExpressions");
  return std::any_of(expressions.begin(), expressions.end(), [](const Json& expression) {
    const auto values = array_member(expression, "values");
    return text_member(expression, "key") == kOsLabel &&
           text_member(expression, "operator") == "In" && !values.Empty() &&
           std::all_of(values.begin(), values.end(),
                       [](const Json& value) { return text_of(value) == kWindows; });
  });
}

bool requires_windows_nodes(const Json& spec) {
  const Json& affinity = object_member(object_member(spec, "affinity"), "nodeAffinity");
  const auto terms =
      array_member(object_member(affinity, "requiredDuringSchedulingIgnoredDuringExecution"),
                   "nodeSelectorTerms");
  return text_member(object_member(spec, "nodeSelector"), kOsLabel) == kWindows ||
         (!terms.Empty() && std::all_of(terms.begin(), terms.end(), allows_windows_only));
}

// Few templates say spec.os. The injected ones are containers of Linux, and the API server refuses
// a pod of which only some containers are a Windows host's processes.
bool is_windows_pod(const Json& pod) {
  const Json& spec = spec_of(pod);
  if (text_member(object_member(spec, "os"), "name") == kWindows || requires_windows_nodes(spec) ||
      has_windows_options(spec)) {
    return true;
  }
  for (const Json::ConstArray& list : {containers_of(pod), init_containers_of(pod)}) {
    if (std::any_of(list.begin(), list.end(), has_windows_options)) return true;
  }
  return false;
}

// Whether a pod can start while the store is being prepared: a registry is not mounted, and a claim
// is bound before the operator gives this reason. The loader then starts cold, and the saver waits.
bool is_being_prepared(const api::CompileCache& cache) {
  const auto& storage = cache.spec.storage;
  const bool in_registry = storage && storage->claim_name.empty();
  const api::Condition* ready =
      api::find_condition(cache.status.conditions, api::kStorageReadyCondition);
  if (ready == nullptr) return in_registry;
  return ready->status == "Unknown" && ready->reason == api::kPreparingReason &&
         (in_registry || ready->observed_generation == cache.metadata.generation);
}

}  // namespace

Decided<void> check_pod_kind(const InjectionInput& input) {
  const auto& excluded = input.settings.excluded_namespaces;
  if (std::find(excluded.begin(), excluded.end(), input.ns) != excluded.end()) {
    return skip(InjectionReason::kNamespaceExcluded);
  }
  if (!wanted_cache(input.pod)) return skip(InjectionReason::kNotAnnotated);
  if (annotation(input.pod, kMirrorAnnotation)) return skip(InjectionReason::kMirrorPod);
  if (is_windows_pod(input.pod)) return skip(InjectionReason::kWindowsPod);
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
  if (!api::is_true(conditions, api::kStorageReadyCondition) && !is_being_prepared(*input.cache)) {
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
                                                    ", which the operator uses; remove it");
  }
  return {};
}

}  // namespace compilecache::webhook
