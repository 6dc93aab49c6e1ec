#pragma once

#include <string>
#include <string_view>

// Where the annotations of pods stand in the kinds of other operators, and whether the manifest of
// such a kind holds whole pod templates, so that it can be injected by hand.
//
//   const TemplatePlace* place = find_template_place("ray.io/v1", "RayCluster");
//
// Source: the API types of their releases of August 2026. Pure data; safe from any thread.

namespace compilecache::cli {

struct TemplatePlace {
  std::string_view group, kind;
  // Where an annotation reaches the pods.
  std::string_view annotations;
  // Whether the annotations stand on whole pod templates. Otherwise the controller makes the pods
  // from something else, and only the webhook can inject those.
  bool whole = true;
  // Pointers to annotations that reach the pods, of a kind whose manifests have no whole templates;
  // separated by blanks, `*` stands for one step.
  std::string_view reaching = {};
};

// Returns nullptr for kinds that are not known.
const TemplatePlace* find_template_place(std::string_view api_version, std::string_view kind);

// The same for what people type: "raycluster", "inferenceservices",
// "trainjob.trainer.kubeflow.org".
const TemplatePlace* find_template_place_typed(std::string_view typed);

// Whether an annotation at this pointer ("/spec/predictor/annotations") reaches the pods.
bool reaches_pods(const TemplatePlace& place, std::string_view pointer);

}  // namespace compilecache::cli
