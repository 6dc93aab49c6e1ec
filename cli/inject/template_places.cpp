#include "cli/inject/template_places.hpp"

#include <algorithm>
#include <cctype>

#include "base/strings.hpp"

namespace compilecache::cli {
namespace {

constexpr TemplatePlace kPlaces[] = {
    {"ray.io", "RayCluster",
     "spec.headGroupSpec.template.metadata.annotations and "
     "spec.workerGroupSpecs[].template.metadata.annotations"},
    {"ray.io", "RayJob",
     "headGroupSpec.template.metadata.annotations and "
     "workerGroupSpecs[].template.metadata.annotations of spec.rayClusterSpec"},
    {"ray.io", "RayService",
     "headGroupSpec.template.metadata.annotations and "
     "workerGroupSpecs[].template.metadata.annotations of spec.rayClusterConfig"},
    {"leaderworkerset.x-k8s.io", "LeaderWorkerSet",
     "metadata.annotations of spec.leaderWorkerTemplate.leaderTemplate and of workerTemplate"},
    {"jobset.x-k8s.io", "JobSet",
     "spec.replicatedJobs[].template.spec.template.metadata.annotations"},
    {"argoproj.io", "Rollout", "spec.template.metadata.annotations"},
    {"serving.kserve.io", "InferenceService", "spec.predictor.annotations or metadata.annotations",
     false, "/metadata/annotations /spec/predictor/annotations"},
    {"serving.kserve.io", "LLMInferenceService", "spec.annotations and spec.prefill.annotations",
     false, "/spec/annotations /spec/prefill/annotations"},
    {"trainer.kubeflow.org", "TrainJob",
     "spec.runtimePatches[].trainingRuntimeSpec.template.spec.replicatedJobs[].template.spec."
     "template.metadata.annotations",
     false,
     "/spec/runtimePatches/*/trainingRuntimeSpec/template/spec/replicatedJobs/*/template/spec/"
     "template/metadata/annotations"},
    {"serving.knative.dev", "Service", "spec.template.metadata.annotations", false,
     "/spec/template/metadata/annotations"},
};

bool matches(std::string_view pattern, std::string_view pointer) {
  const auto wanted = split(pattern, '/'), is = split(pointer, '/');
  return std::equal(wanted.begin(), wanted.end(), is.begin(), is.end(),
                    [](const std::string& a, const std::string& b) { return a == "*" || a == b; });
}

std::string in_lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

}  // namespace

const TemplatePlace* find_template_place(std::string_view api_version, std::string_view kind) {
  const std::string_view group = api_version.substr(0, api_version.find('/'));
  const auto* const found = std::find_if(
      std::begin(kPlaces), std::end(kPlaces),
      [&](const TemplatePlace& place) { return place.group == group && place.kind == kind; });
  return found == std::end(kPlaces) ? nullptr : found;
}

const TemplatePlace* find_template_place_typed(std::string_view typed) {
  const size_t dot = std::min(typed.find('.'), typed.size());
  const std::string word = in_lower_case(typed.substr(0, dot));
  const std::string_view group = typed.substr(std::min(dot + 1, typed.size()));
  const auto* const found =
      std::find_if(std::begin(kPlaces), std::end(kPlaces), [&](const TemplatePlace& place) {
        const std::string kind = in_lower_case(place.kind);
        // A Service without a group is Kubernetes' own.
        if (group.empty() ? kind == "service" : group != place.group) return false;
        return word == kind || word == kind + "s";
      });
  return found == std::end(kPlaces) ? nullptr : found;
}

bool reaches_pods(const TemplatePlace& place, std::string_view pointer) {
  if (place.reaching.empty()) return false;
  const auto patterns = split(place.reaching, ' ');
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return matches(pattern, pointer); });
}

}  // namespace compilecache::cli
