#include "webhook/injection_patch.hpp"

#include <algorithm>
#include <optional>

#include "api/agent_config.hpp"
#include "api/names.hpp"
#include "base/json_writer.hpp"
#include "webhook/environment.hpp"
#include "webhook/pod_bounds.hpp"

namespace compilecache::webhook {

namespace {

std::string json_of(const std::string& text) {
  JsonWriter out;
  out.value(text);
  return out.text();
}

void patch_metadata(Patch& patch, const Json& pod, const Injection& injection) {
  const auto annotate = [&](const char* name, const std::string& value) {
    put(patch, "/metadata/annotations", name, json_of(value));
  };
  annotate(api::kStatusAnnotation, api::dump(injection.status));
  if (!injection.safe_to_evict.empty()) annotate(kSafeToEvictAnnotation, injection.safe_to_evict);
  if (member(member(pod, "metadata"), "labels").IsObject()) {
    put(patch, "/metadata/labels", api::kCacheLabel, json_of(injection.cache));
  } else {
    put(patch, "/metadata", "labels",
        "{" + json_of(api::kCacheLabel) + ":" + json_of(injection.cache) + "}");
  }
}

// Where an init container of that name is; nothing where there is none.
std::optional<size_t> init_container_index(const Json& pod, std::string_view name) {
  const auto containers = init_containers_of(pod);
  for (rapidjson::SizeType i = 0; i < containers.Size(); ++i) {
    if (text_member(containers[i], "name") == name) return i;
  }
  return std::nullopt;
}

}  // namespace

// First in the list: a mesh's redirection is not yet in force then. Where it is from the start, as
// with a mesh's CNI plugin, they say after whom. A container that is not there yet may come with
// another webhook, and then we are asked again.
size_t place_of_agents(const Json& pod, const Injection& injection) {
  if (injection.after.empty()) return 0;
  const auto before_us = init_container_index(pod, injection.after);
  return before_us ? *before_us + 1 : 0;
}

void patch_variables(Patch& patch, const Json& pod, size_t container,
                     const std::vector<podspec::Variable>& variables) {
  append(patch, container_at(pod, container), container_path(pod, container), "env",
         to_json(variables));
}

Patch patch_of(const Json& pod, const Injection& injection) {
  Patch patch;
  patch_metadata(patch, pod, injection);
  for (size_t i = 0; i < injection.selection.containers.size(); ++i) {
    const size_t index = injection.selection.containers[i];
    patch_variables(patch, pod, index, injection.environments[i]);
    append(patch, container_at(pod, index), container_path(pod, index), "volumeMounts",
           to_json(injection.mounts));
  }
  // After them: the injected ones change the indices of init containers.
  if (!injection.agents.empty()) {
    insert(patch, spec_of(pod), "/spec", "initContainers", place_of_agents(pod, injection),
           injection.agents);
  }
  append(patch, spec_of(pod), "/spec", "volumes", to_json(injection.volumes));
  return patch;
}

bool is_injected_already(const Json& pod, const Injection& injection) {
  const auto text = annotation(pod, api::kStatusAnnotation);
  if (!text || text->size() > api::kLongestInjectionStatus) return false;
  const auto status = api::parse_injection_status(std::string(*text));
  if (!status || status->hash != injection.status.hash ||
      status->version != injection.status.version) {
    return false;
  }
  const auto& ours = injection.status.init_containers;
  const auto earliest =
      injection.after.empty() ? std::nullopt : init_container_index(pod, injection.after);
  return std::all_of(ours.begin(), ours.end(), [&](const std::string& name) {
    const auto index = init_container_index(pod, name);
    return index && (!earliest || *index > *earliest);
  });
}

}  // namespace compilecache::webhook
