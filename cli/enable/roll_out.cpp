#include "cli/enable/roll_out.hpp"

#include "cli/text/json_at.hpp"
#include "kube/json.hpp"

namespace compilecache::cli {
namespace {

using nlohmann::json;

constexpr char kFirstIsCold[] =
    " The first pod of each kind of GPU starts cold and saves its archive; later pods load it.";

std::string pods_of(const json& object) {
  const json& replicas = at(object, "/spec/replicas");
  const int64_t count = replicas.is_number_integer() ? replicas.get<int64_t>() : 1;
  return count == 1 ? "its pod" : "its " + std::to_string(count) + " pods";
}

std::string of_replicas(const json& object) {
  if (at(object, "/spec/replicas") == 0) return "It has no pods now; those to come load archives.";
  if (at(object, "/spec/paused") == true) {
    return "The roll-out is paused: its pods are replaced when it is resumed.";
  }
  if (text_in(object, "/spec/strategy/type") == "Recreate") {
    return "All its pods end before new ones start (strategy Recreate).";
  }
  return "A roll-out replaces " + pods_of(object) + ".";
}

bool is_on_delete(const json& object) {
  return text_in(object, "/spec/updateStrategy/type") == "OnDelete";
}

}  // namespace

std::string why_fixed(const json& object, const WorkloadTemplate& workload) {
  for (const json& owner : at(object, "/metadata/ownerReferences")) {
    if (owner.value("controller", false)) {
      const std::string name = text_in(owner, "/kind") + "/" + text_in(owner, "/name");
      return name + " controls it and would undo the change; enable " + name;
    }
  }
  if (workload.kind == "Job") {
    return "a Job's pod template cannot be changed; delete the Job and create it again with the "
           "annotation compilecache.dev/cache";
  }
  return "";
}

std::string roll_out_of(const json& object, const WorkloadTemplate& workload) {
  if (workload.kind == "CronJob") return std::string("Its next Job has it.") + kFirstIsCold;
  if (workload.kind == "ReplicaSet" || is_on_delete(object)) {
    return std::string("Its pods stay as they are until you delete them.") + kFirstIsCold;
  }
  if (workload.kind == "DaemonSet") {
    return std::string("A roll-out replaces its pod on each node.") + kFirstIsCold;
  }
  return of_replicas(object) + kFirstIsCold;
}

std::string manager_of(const json& object) {
  const json& labels = at(object, "/metadata/labels");
  const json& annotations = at(object, "/metadata/annotations");
  const auto has = [](const json& map, const char* name) {
    return map.is_object() && map.contains(name);
  };
  if (has(annotations, "argocd.argoproj.io/tracking-id") ||
      has(labels, "argocd.argoproj.io/instance")) {
    return "Argo CD";
  }
  if (has(labels, "kustomize.toolkit.fluxcd.io/name") ||
      has(labels, "helm.toolkit.fluxcd.io/name")) {
    return "Flux";
  }
  return text_in(labels, "/app.kubernetes.io~1managed-by") == "Helm" ? "Helm" : "";
}

}  // namespace compilecache::cli
