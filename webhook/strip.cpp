#include "webhook/strip.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "api/agent_config.hpp"
#include "api/names.hpp"
#include "base/strings.hpp"
#include "webhook/pod_json.hpp"
#include "webhook/volumes.hpp"

namespace compilecache::webhook {

namespace {

using Names = std::vector<std::string>;

constexpr char kOurPrefix[] = "compilecache-";

bool is_in(const Names& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// The annotation is in the user's hands too: only what is named like ours is taken out.
Names ours_of(const Names& names) {
  Names ours;
  for (const std::string& name : names) {
    if (name.starts_with(kOurPrefix)) ours.push_back(name);
  }
  return ours;
}

void remove_named(json& object, const char* list, const Names& names) {
  const auto found = object.find(list);
  if (found == object.end() || !found->is_array()) return;
  auto& items = found->get_ref<json::array_t&>();
  const size_t before = items.size();
  items.erase(
      std::remove_if(items.begin(), items.end(),
                     [&](const json& item) { return is_in(names, text_member(item, "name")); }),
      items.end());
  if (items.size() != before) drop_if_empty(object, list);
}

void strip_container(json& container, const api::InjectionStatus& status, const Names& volumes) {
  const std::string prefix = text_member(container, "name") + ":";
  Names variables;
  for (const std::string& variable : status.variables) {
    if (variable.starts_with(prefix)) variables.push_back(variable.substr(prefix.size()));
  }
  remove_named(container, "env", variables);
  remove_named(container, "volumeMounts", volumes);
}

void strip_safe_to_evict(json& annotations, const Names& volumes) {
  const auto found = annotations.find(kSafeToEvictAnnotation);
  if (found == annotations.end() || !found->is_string()) return;
  Names kept;
  for (const std::string& name : split(found->get<std::string>(), ',')) {
    if (!is_in(volumes, name)) kept.push_back(name);
  }
  *found = join(kept, ",");
}

}  // namespace

json strip_injection(const json& pod) {
  const auto text = annotation(pod, api::kStatusAnnotation);
  if (!text) return pod;
  const auto status = api::parse_injection_status(*text);
  if (!status) return pod;
  json stripped = pod;
  json& metadata = stripped["metadata"];
  metadata["annotations"].erase(api::kStatusAnnotation);
  const Names volumes = ours_of(status->volumes);
  strip_safe_to_evict(metadata["annotations"], volumes);
  if (const auto labels = metadata.find("labels"); labels != metadata.end()) {
    if (labels->is_object()) labels->erase(api::kCacheLabel);
    drop_if_empty(metadata, "labels");
  }
  json& spec = stripped["spec"];
  remove_named(spec, "initContainers", ours_of(status->init_containers));
  remove_named(spec, "volumes", volumes);
  if (const auto containers = spec.find("containers"); containers != spec.end()) {
    for (json& container : *containers) strip_container(container, *status, volumes);
  }
  return stripped;
}

}  // namespace compilecache::webhook
