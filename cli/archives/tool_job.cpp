#include "cli/archives/tool_job.hpp"

#include <nlohmann/json.hpp>

#include "api/names.hpp"
#include "kube/json.hpp"

namespace compilecache::cli {
namespace {

using nlohmann::json;

// So long it can be looked at where this program was killed before it had deleted it.
constexpr int kKeptSeconds = 300;

// For a Job that waits with a folder to clear. It ends when it is deleted or at its deadline. A
// process that still writes there is ended first.
constexpr char kWaitAndClear[] =
    "trap 'kill -9 -1; rm -rf \"$1\"' EXIT; trap 'exit 0' TERM; sleep \"$0\" & wait";
constexpr int kToClear = 60;  // seconds, which a large archive on a slow volume may take

std::vector<std::string> command_of(const ToolJobInput& input) {
  if (!input.arguments.empty()) return {"compilecache-agent"};
  const std::string seconds = std::to_string(input.deadline.count());
  if (input.clears.empty()) return {"sleep", seconds};
  return {"sh", "-c", kWaitAndClear, seconds, input.clears};
}

json container_of(const ToolJobInput& input) {
  return {{"name", kToolContainer},
          {"image", input.image},
          {"command", command_of(input)},
          {"args", input.arguments},
          {"resources",
           {{"requests", {{"cpu", "100m"}, {"memory", "64Mi"}}},
            {"limits", {{"cpu", "2"}, {"memory", "256Mi"}}}}},
          {"securityContext",
           {{"allowPrivilegeEscalation", false},
            {"readOnlyRootFilesystem", true},
            {"runAsNonRoot", true},
            {"capabilities", {{"drop", {"ALL"}}}},
            {"seccompProfile", {{"type", "RuntimeDefault"}}}}},
          {"volumeMounts", json::array({{{"name", api::kStoreVolume},
                                         {"mountPath", api::kStorePath},
                                         {"readOnly", !input.writes}}})}};
}

json pod_of(const ToolJobInput& input) {
  json spec = {
      {"restartPolicy", "Never"},
      {"automountServiceAccountToken", false},
      {"enableServiceLinks", false},
      {"terminationGracePeriodSeconds", input.clears.empty() ? 1 : kToClear},
      {"containers", json::array({container_of(input)})},
      {"volumes",
       json::array({{{"name", api::kStoreVolume},
                     {"persistentVolumeClaim",
                      {{"claimName", input.volume.claim}, {"readOnly", !input.writes}}}}})}};
  if (!input.node.empty()) {
    const json term = {
        {"matchFields",
         json::array({{{"key", "metadata.name"}, {"operator", "In"}, {"values", {input.node}}}})}};
    spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = {
        {"nodeSelectorTerms", json::array({term})}};
    spec["tolerations"] = json::array({{{"operator", "Exists"}, {"effect", "NoSchedule"}}});
  }
  return spec;
}

bool has_ended(const json& pod) {
  const std::string phase = kube::string_at(pod, {"status", "phase"});
  return phase == "Succeeded" || phase == "Failed";
}

template <typename Visit>
void each(const json& object, const char* pointer, const Visit& visit) {
  const json::json_pointer place(pointer);
  if (!object.contains(place) || !object.at(place).is_array()) return;
  for (const json& item : object.at(place)) visit(item);
}

}  // namespace

json tool_job(const ToolJobInput& input) {
  const json labels = {{"app.kubernetes.io/name", "compilecache-tool"},
                       {"app.kubernetes.io/managed-by", "kubectl-compilecache"}};
  return {{"apiVersion", "batch/v1"},
          {"kind", "Job"},
          {"metadata", {{"name", input.name}, {"namespace", input.volume.ns}, {"labels", labels}}},
          {"spec",
           {{"backoffLimit", 0},
            {"activeDeadlineSeconds", input.deadline.count()},
            {"ttlSecondsAfterFinished", kKeptSeconds},
            {"template", {{"metadata", {{"labels", labels}}}, {"spec", pod_of(input)}}}}}};
}

std::string store_path(const api::VolumeRef& volume) {
  return std::string(api::kStorePath) + "/" + volume.path;
}

std::string agent_image_in(const json& pods) {
  std::string image;
  each(pods, "/items", [&](const json& pod) {
    const json labels = pod.value("/metadata/labels"_json_pointer, json::object());
    if (labels.contains(api::kSweepLabel)) {
      each(pod, "/spec/containers", [&](const json& one) { image = one.value("image", image); });
    }
    each(pod, "/spec/initContainers", [&](const json& one) {
      if (one.value("name", "") == api::kLoaderContainer) image = one.value("image", image);
    });
  });
  return image;
}

std::string node_of_claim(const json& pods, const std::string& claim) {
  std::string node;
  each(pods, "/items", [&](const json& pod) {
    if (has_ended(pod)) return;
    each(pod, "/spec/volumes", [&](const json& volume) {
      if (kube::string_at(volume, {"persistentVolumeClaim", "claimName"}) == claim) {
        const std::string on = kube::string_at(pod, {"spec", "nodeName"});
        if (!on.empty()) node = on;
      }
    });
  });
  return node;
}

ToolPod read_tool_pod(const json& pod) {
  ToolPod read{.name = kube::string_at(pod, {"metadata", "name"})};
  each(pod, "/status/conditions", [&](const json& condition) {
    if (condition.value("type", "") == "PodScheduled" && condition.value("status", "") == "False") {
      read.trouble = "its pod cannot be scheduled: " + condition.value("message", "");
    }
  });
  each(pod, "/status/containerStatuses", [&](const json& status) {
    const std::string waits = kube::string_at(status, {"state", "waiting", "reason"});
    if (!waits.empty() && waits != "ContainerCreating") {
      read.trouble = "its container waits: " + waits + ": " +
                     kube::string_at(status, {"state", "waiting", "message"});
    }
    read.running = status.contains("/state/running"_json_pointer);
    const auto ended = "/state/terminated/exitCode"_json_pointer;
    if (status.contains(ended)) read.exit_code = status.at(ended).get<int>();
  });
  if (!read.exit_code && has_ended(pod)) {
    read.exit_code = -1;
    read.trouble = kube::string_at(pod, {"status", "reason"}) + ": " +
                   kube::string_at(pod, {"status", "message"});
  }
  return read;
}

}  // namespace compilecache::cli
