#include "webhook/strip.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "api/agent_config.hpp"
#include "api/names.hpp"
#include "base/json_writer.hpp"
#include "base/strings.hpp"
#include "webhook/volumes.hpp"

namespace compilecache::webhook {

namespace {

using Names = std::vector<std::string>;

constexpr char kOurPrefix[] = "compilecache-";

bool is_in(const Names& names, std::string_view name) {
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

// From the last to the first, so that the indices stay right. A list of nothing else goes as a
// whole: it would be empty, which nobody needs to see.
void remove_named(Patch& patch, const Json& object, const std::string& path, const char* list,
                  const Names& names) {
  const auto items = array_member(object, list);
  std::vector<std::string> removals;
  for (size_t i = items.Size(); i > 0; --i) {
    const Json& item = items[static_cast<rapidjson::SizeType>(i - 1)];
    if (!is_in(names, text_member(item, "name"))) continue;
    removals.push_back(path + "/" + list + "/" + std::to_string(i - 1));
  }
  if (!removals.empty() && removals.size() == items.Size()) removals = {path + "/" + list};
  for (std::string& removal : removals) remove(patch, std::move(removal));
}

void strip_container(Patch& patch, const Json& container, const std::string& path,
                     const api::InjectionStatus& status, const Names& volumes) {
  const std::string prefix = std::string(text_member(container, "name")) + ":";
  Names variables;
  for (const std::string& variable : status.variables) {
    if (variable.starts_with(prefix)) variables.push_back(variable.substr(prefix.size()));
  }
  remove_named(patch, container, path, "env", variables);
  remove_named(patch, container, path, "volumeMounts", volumes);
}

void strip_safe_to_evict(Patch& patch, const Json& pod, const Names& volumes) {
  const auto present = annotation(pod, kSafeToEvictAnnotation);
  if (!present) return;
  Names kept;
  for (const std::string& name : split(*present, ',')) {
    if (!is_in(volumes, name)) kept.push_back(name);
  }
  JsonWriter out;
  out.value(join(kept, ","));
  put(patch, "/metadata/annotations", kSafeToEvictAnnotation, out.text());
}

void strip_label(Patch& patch, const Json& pod) {
  const Json& labels = member(member(pod, "metadata"), "labels");
  if (!has_member(labels, api::kCacheLabel)) return;
  const bool alone = labels.MemberCount() == 1;
  remove(patch, alone ? "/metadata/labels" : "/metadata/labels/" + escaped(api::kCacheLabel));
}

}  // namespace

Patch strip_injection(const Json& pod) {
  const auto text = annotation(pod, api::kStatusAnnotation);
  if (!text) return {};
  const auto status = api::parse_injection_status(std::string(*text));
  if (!status) return {};
  Patch patch;
  remove(patch, "/metadata/annotations/" + escaped(api::kStatusAnnotation));
  const Names volumes = ours_of(status->volumes);
  strip_safe_to_evict(patch, pod, volumes);
  strip_label(patch, pod);
  const Json& spec = spec_of(pod);
  remove_named(patch, spec, "/spec", "initContainers", ours_of(status->init_containers));
  remove_named(patch, spec, "/spec", "volumes", volumes);
  for (size_t i = 0; i < containers_of(pod).Size(); ++i) {
    strip_container(patch, container_at(pod, i), "/spec/containers/" + std::to_string(i), *status,
                    volumes);
  }
  return patch;
}

}  // namespace compilecache::webhook
