#include "cli/explain/pod_story_key.hpp"

#include <nlohmann/json.hpp>
#include <set>

#include "api/names.hpp"
#include "kube/json.hpp"
#include "operator/cluster/cluster_view.hpp"

namespace compilecache::cli {
namespace {

using nlohmann::json;

// The node's label that has this value; of several the first by name. Found by the value, since
// which labels count is a setting of the operator's.
std::string label_with(const json& node, const std::string& resource, const std::string& value) {
  const json::json_pointer labels("/metadata/labels");
  if (!node.contains(labels) || !node.at(labels).is_object()) return "";
  for (const auto& [name, label] : node.at(labels).items()) {
    if (!label.is_string()) continue;
    const std::string said = label.get<std::string>();
    if (said == value || api::normalized_gpu_product(said, resource) == value) return name;
  }
  return "";
}

std::string from_node(const std::optional<json>& node, const std::string& resource,
                      const std::string& value) {
  if (!node) return "a label of the node";
  const std::string name = kube::string_at(*node, {"metadata", "name"});
  const std::string label = label_with(*node, resource, value);
  return label.empty() ? "the labels of node " + name : "the label " + label + " of node " + name;
}

std::string from(const std::string& part, const std::string& value, const api::KeyBasis& basis,
                 const json& pod, const std::optional<json>& node) {
  const bool by_claims = basis.claims.has_value();
  if (by_claims && (part == api::kGpuProductPart || part == api::kGpuCountPart ||
                    part == api::kDriverVersionPart)) {
    return "the devices that the pod's resourceClaims were given, as ResourceSlices describe them";
  }
  if (part == api::kGpuProductPart) {
    return basis.gpu_resource.empty() ? "the node's architecture: the pod requests no GPU"
                                      : from_node(node, basis.gpu_resource, value);
  }
  if (part == api::kCpuPart) return "what the loader read on the node (docs/how-to/cpu.md)";
  if (part == api::kGpuCountPart) {
    return basis.gpu_resource.empty() ? "the pod requests no GPU"
                                      : "the pod's request for " + basis.gpu_resource;
  }
  if (part == api::kImagePart) return "the image of the first chosen container";
  if (part == api::kWorkloadPart) return "what the pod's owners and labels tell";
  if (part == api::kDirectoriesPart) return "the pod's own cache directories";
  if (part == api::kVersionPart) {
    const json::json_pointer annotations("/metadata/annotations");
    const bool own =
        pod.contains(annotations) && pod.at(annotations).contains(api::kVersionAnnotation);
    return own ? std::string("the annotation ") + api::kVersionAnnotation : "spec.version";
  }
  return from_node(node, "", value);
}

}  // namespace

api::ArchiveKey key_of_pod(const api::KeyBasis& basis, const std::optional<json>& node) {
  if (!node) return {};
  const auto read = controller::parse_node(*node, api::NodeLabels{});
  if (!read) return {};
  return api::make_key(basis, read->facts).value_or(api::ArchiveKey{});
}

std::vector<KeyPart> parts_of(const api::ArchiveKey& key, const api::KeyBasis& basis,
                              const json& pod, const std::optional<json>& node) {
  std::vector<KeyPart> parts;
  for (const auto& [name, value] : key) {
    parts.push_back({name, value, from(name, value, basis, pod, node)});
  }
  return parts;
}

std::vector<std::string> differences(const api::ArchiveKey& there, const api::ArchiveKey& here) {
  std::set<std::string> names;
  for (const auto* key : {&there, &here}) {
    for (const auto& [name, value] : *key) names.insert(name);
  }
  const auto value = [](const api::ArchiveKey& key, const std::string& name) {
    const auto found = key.find(name);
    return found == key.end() ? std::string("none") : found->second;
  };
  std::vector<std::string> differing;
  for (const std::string& name : names) {
    const std::string before = value(there, name);
    const std::string now = value(here, name);
    if (before != now) differing.push_back(name + ": " + before + " there, " + now + " here");
  }
  return differing;
}

}  // namespace compilecache::cli
