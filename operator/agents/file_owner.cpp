#include "operator/agents/file_owner.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

namespace compilecache::controller {
namespace {

using nlohmann::json;

// The member at the end of that path, or null.
const json& at(const json& object, const char* pointer) {
  static const json kNothing;
  const json::json_pointer path(pointer);
  return object.contains(path) ? object.at(path) : kNothing;
}

const json* named(const json& pod, std::initializer_list<const char*> lists,
                  const std::string& name) {
  for (const char* list : lists) {
    for (const json& item : at(pod, list)) {
      if (at(item, "/name") == name) return &item;
    }
  }
  return nullptr;
}

// A container's own word counts before the pod's.
const json& setting_of(const json& pod, const json& container, const std::string& name) {
  const json& own = at(container, ("/securityContext/" + name).c_str());
  return own.is_null() ? at(pod, ("/spec/securityContext/" + name).c_str()) : own;
}

bool can_own_files(const json& pod, const std::string& name, int64_t user) {
  const auto may_become = [&](const json& runs_as) { return runs_as == 0 || runs_as == user; };
  const json* status =
      named(pod, {"/status/containerStatuses", "/status/initContainerStatuses"}, name);
  if (status != nullptr) {
    const json& told = at(*status, "/user/linux/uid");
    if (told.is_number_integer()) return may_become(told);
  }
  const json* container = named(pod, {"/spec/containers", "/spec/initContainers"}, name);
  if (container == nullptr) return false;
  const json& demanded = setting_of(pod, *container, "runAsUser");
  if (demanded.is_number_integer()) return may_become(demanded);
  return user != 0 || setting_of(pod, *container, "runAsNonRoot") != true;
}

}  // namespace

bool can_own_files(const json& pod, const std::vector<std::string>& containers, int64_t user) {
  return std::any_of(containers.begin(), containers.end(),
                     [&](const std::string& name) { return can_own_files(pod, name, user); });
}

}  // namespace compilecache::controller
