#include "webhook/traps.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/strings.hpp"
#include "webhook/pod_json.hpp"

namespace compilecache::webhook {

namespace {

using Frameworks = std::vector<const frameworks::Framework*>;

constexpr char kPrefix[] = "compilecache.dev: ";
constexpr char kVllmRoot[] = "VLLM_CACHE_ROOT";

bool has(const Frameworks& frameworks, std::string_view name) {
  return std::any_of(frameworks.begin(), frameworks.end(),
                     [&](const frameworks::Framework* one) { return one->name == name; });
}

std::string start(const json& container) {
  return kPrefix + ("container \"" + text_member(container, "name")) + "\": ";
}

const json* variable(const json& container, const char* name) {
  return find_named(array_member(container, "env"), name);
}

// Directory variables that an envFrom of the container may set, as its prefixes allow.
std::vector<std::string> hidden_variables(const json& container, const Frameworks& frameworks) {
  std::vector<std::string> names;
  for (const frameworks::Framework* framework : frameworks) {
    const std::string& name = framework->directory_variable;
    if (name.empty() || variable(container, name.c_str()) != nullptr) continue;
    for (const json& source : array_member(container, "envFrom")) {
      if (!name.starts_with(text_member(source, "prefix"))) continue;
      names.push_back(name);
      break;
    }
  }
  return names;
}

bool runs_vllm(const json& container) {
  if (text_member(container, "image").find("vllm") != std::string::npos) return true;
  for (const char* list : {"command", "args"}) {
    for (const json& word : array_member(container, list)) {
      if (!word.is_string()) continue;
      const auto& text = word.get_ref<const std::string&>();
      if (text == "vllm" || text.find("vllm serve") != std::string::npos ||
          text.find("vllm.entrypoints") != std::string::npos) {
        return true;
      }
    }
  }
  return false;
}

// The container's own, else the pod's; nothing where the image or the cluster decides.
std::optional<int64_t> user_of(const json& pod, const json& container) {
  for (const json* object : {&container, &spec_of(pod)}) {
    const json& user = member(object_member(*object, "securityContext"), "runAsUser");
    if (user.is_number_integer()) return user.get<int64_t>();
  }
  return std::nullopt;
}

// The variables that Python's getpass.getuser() reads before it asks for the user's name.
bool names_its_user(const json& container) {
  for (const char* name : {"LOGNAME", "USER", "LNAME", "USERNAME"}) {
    if (variable(container, name) != nullptr) return true;
  }
  return false;
}

// VLLM_* variables whose values are of one pod or node.
std::vector<std::string> changing_variables(const json& container) {
  std::vector<std::string> names;
  for (const json& one : array_member(container, "env")) {
    const std::string name = text_member(one, "name");
    if (name.starts_with("VLLM_") && member(one, "valueFrom").contains("fieldRef")) {
      names.push_back(name);
    }
  }
  return names;
}

}  // namespace

std::vector<std::string> trap_warnings(const json& pod, const Selection& selection,
                                       const Frameworks& frameworks) {
  std::vector<std::string> warnings;
  for (const size_t index : selection.containers) {
    const json& container = containers_of(pod)[index];
    const auto hidden = hidden_variables(container, frameworks);
    if (!hidden.empty()) {
      warnings.push_back(start(container) + "if its envFrom sets " + join(hidden, " or ") +
                         ", that has no effect: the injected value counts");
    }
    const bool vllm = has(frameworks, "vllm");
    if (has(frameworks, "torch") && !vllm &&
        (runs_vllm(container) || variable(container, kVllmRoot) != nullptr)) {
      warnings.push_back(
          start(container) +
          "vLLM keeps Inductor's cache in VLLM_CACHE_ROOT, not in "
          "TORCHINDUCTOR_CACHE_DIR; add vllm to spec.frameworks or to the annotation "
          "compilecache.dev/frameworks");
    }
    if ((has(frameworks, "torch") || vllm) && user_of(pod, container).value_or(0) != 0 &&
        !names_its_user(container)) {
      warnings.push_back(start(container) + "runs as user " +
                         std::to_string(*user_of(pod, container)) +
                         " without the variable USER; where the image has no such user, PyTorch "
                         "before 2.13 fails at import: set USER");
    }
    const auto changing = changing_variables(container);
    if (vllm && !changing.empty()) {
      warnings.push_back(
          start(container) + join(changing, ", ") +
          " differs from pod to pod and may be part of vLLM's key; then nothing that "
          "another pod compiled is used");
    }
  }
  return warnings;
}

std::vector<std::string> remote_cache_warnings(const json& pod, const Selection& selection,
                                               const Frameworks& frameworks) {
  std::vector<std::string> warnings;
  const bool any = std::any_of(frameworks.begin(), frameworks.end(),
                               [](const auto* one) { return !one->redis_env.empty(); });
  for (const size_t index : selection.containers) {
    if (!any) break;
    warnings.push_back(start(containers_of(pod)[index]) +
                       "PyTorch reaches Redis by Python's package redis; an image without it "
                       "neither reads nor fills spec.remoteCache.redis");
  }
  return warnings;
}

}  // namespace compilecache::webhook
