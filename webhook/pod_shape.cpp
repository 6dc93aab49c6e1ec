#include "webhook/pod_shape.hpp"

#include <algorithm>
#include <string>

namespace compilecache::webhook {

namespace {

tl::unexpected<Skip> odd(const std::string& where, const char* what) {
  return skip(api::InjectionReason::kRequestInvalid,
              "the pod's JSON has an odd shape: " + where + " is no " + what);
}

bool is_list_or_absent(const Json& value) { return value.IsNull() || value.IsArray(); }

bool holds_objects(Json::ConstArray list) {
  return std::all_of(list.begin(), list.end(), [](const Json& item) { return item.IsObject(); });
}

Decided<void> check_list(const Json& object, const std::string& path, const char* name) {
  const std::string where = path + "." + name;
  if (!is_list_or_absent(member(object, name))) return odd(where, "list");
  if (!holds_objects(array_member(object, name))) return odd(where, "list of objects");
  return {};
}

}  // namespace

Decided<void> check_shape(const Json& pod) {
  const Json& labels = member(member(pod, "metadata"), "labels");
  if (!labels.IsNull() && !labels.IsObject()) return odd("metadata.labels", "object");
  if (!member(pod, "spec").IsObject()) return odd("spec", "object");
  for (const char* list : {"volumes", "initContainers", "containers"}) {
    const auto good = check_list(spec_of(pod), "spec", list);
    if (!good) return good;
  }
  for (size_t i = 0; i < count_containers(pod); ++i) {
    for (const char* list : {"env", "volumeMounts"}) {
      const auto good =
          check_list(container_at(pod, i),
                     is_init_container(pod, i) ? "spec.initContainers" : "spec.containers", list);
      if (!good) return good;
    }
  }
  return {};
}

}  // namespace compilecache::webhook
