#include "cli/prewarm/prewarm_pod.hpp"

#include <algorithm>
#include <set>

#include "api/names.hpp"
#include "cli/cluster/label_match.hpp"
#include "kube/json.hpp"

namespace compilecache::cli {
namespace {

using nlohmann::json;

constexpr char kGate[] = "compilecache.dev/prewarm";  // a condition that nobody sets

json labels_in(const json& pod) {
  const json::json_pointer labels("/metadata/labels");
  return pod.contains(labels) && pod.at(labels).is_object() ? pod.at(labels) : json::object();
}

// The claims that a StatefulSet would have made for each of its pods.
void add_claims(const json& claim_templates, json& spec) {
  for (const json& claim : claim_templates) {
    const std::string name = kube::string_at(claim, {"metadata", "name"});
    json& volumes = spec["volumes"];
    if (!volumes.is_array()) volumes = json::array();
    std::erase_if(volumes.get_ref<json::array_t&>(),
                  [&](const json& volume) { return kube::string_at(volume, {"name"}) == name; });
    volumes.push_back(
        {{"name", name},
         {"ephemeral",
          {{"volumeClaimTemplate", {{"spec", claim.value("spec", json::object())}}}}}});
  }
}

bool selects(const PodSelector& who, const json& pod) {
  return matches_selector(who.selector, labels_in(pod));
}

}  // namespace

json prewarm_pod(const WorkloadTemplate& workload, const std::string& name,
                 std::chrono::seconds deadline) {
  json pod = workload.pod_template;
  pod["apiVersion"] = "v1";
  pod["kind"] = "Pod";
  json& metadata = pod["metadata"];
  for (const char* of_another : {"generateName", "ownerReferences", "creationTimestamp", "uid"}) {
    metadata.erase(of_another);
  }
  metadata["name"] = name;
  metadata["namespace"] = workload.ns;
  metadata["labels"] = labels_in(pod);
  metadata["labels"][api::kPrewarmLabel] = "true";
  metadata["annotations"][api::kWorkloadAnnotation] = workload.workload();
  json& spec = pod["spec"];
  spec["activeDeadlineSeconds"] = deadline.count();
  json& gates = spec["readinessGates"];
  if (!gates.is_array()) gates = json::array();
  gates.push_back({{"conditionType", kGate}});
  add_claims(workload.claim_templates, spec);
  return pod;
}

std::string prewarm_name(const std::string& workload, const std::string& random) {
  constexpr size_t kLongest = 63, kRandom = 8;
  const std::string end = "-prewarm-" + random.substr(0, kRandom);
  std::string name = workload.substr(0, kLongest - end.size());
  while (!name.empty() && (name.back() == '-' || name.back() == '.')) name.pop_back();
  return name + end;
}

PodSelector selector_of(const std::string& kind, const json& object) {
  PodSelector made{kind + " " + kube::string_at(object, {"metadata", "name"}), json()};
  const json::json_pointer path("/spec/selector");
  if (!object.contains(path)) return made;
  const json& selector = object.at(path);
  const bool plain = kind == "Service" || kind == "ReplicationController";
  if (!plain) {
    made.selector = selector;
  } else if (selector.is_object() && !selector.empty()) {
    made.selector = {{"matchLabels", selector}};
  }
  // It selects every pod there is; one more that it may count cannot be prevented.
  made.harmless = kind == "PodDisruptionBudget";
  return made;
}

std::vector<std::string> strip_labels(json& pod) {
  std::vector<std::string> removed;
  json kept = json::object();
  const json labels = labels_in(pod);
  for (const auto& [name, value] : labels.items()) {
    if (name == api::kPrewarmLabel) {
      kept[name] = value;
    } else {
      removed.push_back(name);
    }
  }
  pod["metadata"]["labels"] = std::move(kept);
  return removed;
}

Detached detach(json& pod, const std::vector<PodSelector>& selectors) {
  std::set<std::string> removed;
  // Without a label another selector may match, so until none does; each round takes one away.
  bool again = true;
  while (again) {
    again = false;
    for (const PodSelector& who : selectors) {
      if (!selects(who, pod)) continue;
      for (const std::string& name : labels_of(who.selector)) {
        if (name == api::kPrewarmLabel || pod["metadata"]["labels"].erase(name) == 0) continue;
        removed.insert(name);
        again = true;
      }
    }
  }
  const auto selected = [&](const PodSelector& who) { return selects(who, pod); };
  if (std::any_of(selectors.begin(), selectors.end(),
                  [&](const PodSelector& who) { return !who.harmless && selected(who); })) {
    for (const std::string& name : strip_labels(pod)) removed.insert(name);
  }
  Detached detached{{removed.begin(), removed.end()}, {}};
  for (const PodSelector& who : selectors) {
    if (!who.harmless && selected(who)) detached.still.push_back(who.who);
  }
  return detached;
}

Status set_image(json& pod, const std::string& container, const std::string& image) {
  for (const char* list : {"containers", "initContainers"}) {
    json& spec = pod["spec"];
    if (!spec.contains(list)) continue;
    for (json& one : spec[list]) {
      if (kube::string_at(one, {"name"}) != container) continue;
      one["image"] = image;
      return {};
    }
  }
  return fail(ErrorCode::kInvalid,
              "--image: the pod template has no container \"" + container + "\"");
}

}  // namespace compilecache::cli
