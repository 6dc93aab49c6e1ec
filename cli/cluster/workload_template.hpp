#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/error.hpp"
#include "kube/resource.hpp"

// Workloads of which any one pod stands for all: `prewarm` can make a pod of them, and `explain`
// shows what their pods have in common.
//
//   const auto named = workload_named("deploy/web");         // its resource, kind and name
//   auto made_of = workload_template(object, "default");     // its pod template
//
// Pure; safe from any thread.

namespace compilecache::cli {

struct WorkloadName {
  kube::Resource resource;
  std::string kind, name;
};
// "deployment/web", and the short names that kubectl has. kInvalid names the kinds there are.
Result<WorkloadName> workload_named(const std::string& text);

struct WorkloadTemplate {
  std::string ns, kind, name;
  nlohmann::json pod_template;
  std::string template_path;  // where the object has it, "/spec/template"
  nlohmann::json claim_templates = nlohmann::json::array();  // of a StatefulSet
  nlohmann::json selector;                                   // of its pods; null: none is written

  // "Deployment/web", as the part Workload of a key has it.
  [[nodiscard]] std::string workload() const { return kind + "/" + name; }
};

// For an object of the API server or a manifest; `ns` counts where that names none. Nothing
// for objects of other kinds; kInvalid where it has no pod template.
Result<std::optional<WorkloadTemplate>> workload_template(const nlohmann::json& object,
                                                          const std::string& ns);

}  // namespace compilecache::cli
