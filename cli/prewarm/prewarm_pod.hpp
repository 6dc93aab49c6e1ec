#pragma once

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "cli/cluster/workload_template.hpp"

// The pod that warms an archive before a roll-out: one of the new template that serves nobody and
// belongs to nobody.
//
//   json pod = prewarm_pod(workload, name, deadline);
//   const Detached detached = detach(pod, selectors);   // which labels went, who still selects it
//
// It never becomes Ready as a pod (a readiness gate that nobody sets), so that no Service sends it
// anything even when a new one selects it. It has no owner, and a deadline, so that it does not
// stay forever where nobody is left to delete it. Pure; safe from any thread.

namespace compilecache::cli {

// `name`: of the pod. A StatefulSet's claims become ephemeral ones that go with the pod.
nlohmann::json prewarm_pod(const WorkloadTemplate& workload, const std::string& name,
                           std::chrono::seconds deadline);

// "web-prewarm-1a2b3c4d", at most 63 characters.
std::string prewarm_name(const std::string& workload, const std::string& random);

// Who chooses pods by their labels.
struct PodSelector {
  std::string who;          // "Service web"
  nlohmann::json selector;  // a LabelSelector
  bool harmless = false;    // it may select the pod where it selects all pods of the namespace
};

// For an object with a selector: Services write it another way. Its `who` is kind and name.
PodSelector selector_of(const std::string& kind, const nlohmann::json& object);

struct Detached {
  std::vector<std::string> removed;  // names of labels
  std::vector<std::string> still;    // whose selectors choose the pod without any label, too
};

// Takes away all labels by which one of them selects the pod. Where that is not enough, because one
// selects pods that lack a label, all labels but the injection's go.
Detached detach(nlohmann::json& pod, const std::vector<PodSelector>& selectors);

// Takes away all labels but the injection's: for users who may not read selectors.
std::vector<std::string> strip_labels(nlohmann::json& pod);

// Sets the image of a container; kInvalid where there is none of that name.
Status set_image(nlohmann::json& pod, const std::string& container, const std::string& image);

}  // namespace compilecache::cli
