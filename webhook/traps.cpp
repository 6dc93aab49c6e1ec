#include "webhook/traps.hpp"

#include <algorithm>
#include <optional>
#include <set>

#include "base/strings.hpp"
#include "frameworks/glob.hpp"
#include "webhook/own_caches.hpp"

namespace compilecache::webhook {

namespace {

using frameworks::Framework;
using frameworks::Trap;
using Frameworks = std::vector<const Framework*>;
using Names = std::vector<std::string>;

constexpr char kPrefix[] = "compilecache.dev: ";
// Variables that one warning names; it has 256 bytes.
constexpr size_t kMostNamed = 16;

bool has_any(const Frameworks& frameworks, const Names& names) {
  return std::any_of(frameworks.begin(), frameworks.end(), [&](const Framework* one) {
    return std::find(names.begin(), names.end(), one->name) != names.end();
  });
}

bool matches_any(const Names& patterns, std::string_view text) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
    return frameworks::name_matches(pattern, text);
  });
}

std::string start(const Json& container) {
  return kPrefix + ("container \"" + std::string(text_member(container, "name"))) + "\": ";
}

// Directory variables that an envFrom of the container may set, as its prefixes allow.
Names hidden_variables(const Json& container, const Frameworks& frameworks) {
  Names names;
  for (const Framework* framework : frameworks) {
    const std::string& name = framework->directory_variable;
    if (name.empty() || find_named(array_member(container, "env"), name) != nullptr) continue;
    if (may_come_from_env_from(container, name)) names.push_back(name);
  }
  return names;
}

// The container's own, else the pod's; nothing where the image or the cluster decides.
std::optional<int64_t> user_of(const Json& pod, const Json& container) {
  for (const Json* object : {&container, &spec_of(pod)}) {
    const Json& user = member(object_member(*object, "securityContext"), "runAsUser");
    if (user.IsInt64()) return user.GetInt64();
  }
  return std::nullopt;
}

bool has_word(const Json& container, const Names& patterns) {
  for (const char* list : {"command", "args"}) {
    for (const Json& word : array_member(container, list)) {
      if (word.IsString() && matches_any(patterns, text_of(word))) return true;
    }
  }
  return false;
}

bool is_field(const Json& variable) {
  return has_member(member(variable, "valueFrom"), "fieldRef");
}

// The container's variables that come from the downward API.
std::set<std::string_view> fields_of(const Json& container) {
  std::set<std::string_view> names;
  for (const Json& variable : array_member(container, "env")) {
    if (is_field(variable)) names.insert(text_member(variable, "name"));
  }
  return names;
}

// Whether the value comes from the downward API, or is composed by $(NAME) from one that does. As
// the kubelet reads it (third_party/forked/golang/expansion): "$$" is a dollar, and a name goes on
// to the next ")", whatever stands in it.
bool is_of_pod(const Json& variable, const std::set<std::string_view>& fields) {
  if (is_field(variable)) return true;
  const std::string_view value = text_member(variable, "value");
  for (size_t at = value.find('$'); at != std::string_view::npos; at = value.find('$', at)) {
    const std::string_view rest = value.substr(at + 1);
    if (!rest.starts_with('(')) {
      at += rest.starts_with('$') ? 2 : 1;
      continue;
    }
    const size_t end = rest.find(')');
    if (end == std::string_view::npos) return false;
    if (fields.contains(rest.substr(1, end - 1))) return true;
    at += 1 + end + 1;
  }
  return false;
}

// The variables because of which the container is caught, as far as a warning has room for them.
Names met_variables(const Json& container, const Trap& trap) {
  Names met;
  const auto fields =
      trap.variables_of_pod.empty() ? std::set<std::string_view>() : fields_of(container);
  for (const Json& variable : array_member(container, "env")) {
    const std::string name(text_member(variable, "name"));
    const std::string set = name + "=" + std::string(text_member(variable, "value"));
    const bool named = matches_any(trap.variables, name);
    if (!named && matches_any(trap.variables, set)) {
      met.push_back(set);
    } else if (named || (matches_any(trap.variables_of_pod, name) && is_of_pod(variable, fields))) {
      met.push_back(name);
    }
    if (met.size() == kMostNamed) break;
  }
  return met;
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const size_t at = text.find(what);
  if (at != std::string::npos) text.replace(at, what.size(), by);
  return text;
}

// The warning for the container, or nothing.
std::optional<std::string> warning_of(const Trap& trap, const Json& pod, const Json& container) {
  for (const Json& variable : array_member(container, "env")) {
    if (matches_any(trap.unless_variables, text_member(variable, "name"))) return std::nullopt;
  }
  const Names variables = met_variables(container, trap);
  const int64_t user = user_of(pod, container).value_or(0);
  const bool met = !variables.empty() || (trap.numbered_user && user != 0) ||
                   matches_any(trap.images, text_member(container, "image")) ||
                   has_word(container, trap.words);
  if (!met) return std::nullopt;
  return replaced(replaced(trap.warning, "{variables}", join(variables, ", ")), "{user}",
                  std::to_string(user));
}

}  // namespace

std::vector<std::string> trap_warnings(const TrapInput& input) {
  std::vector<std::string> warnings;
  for (const size_t index : input.selection.containers) {
    const Json& container = container_at(input.pod, index);
    const auto hidden = hidden_variables(container, input.frameworks);
    if (!hidden.empty()) {
      warnings.push_back(start(container) + "if its envFrom sets " + join(hidden, " or ") +
                         ", that has no effect: the injected value counts");
    }
    for (const Trap& trap : input.traps) {
      if (!has_any(input.frameworks, trap.frameworks)) continue;
      if (has_any(input.wanted, trap.unless_frameworks)) continue;
      if (const auto warning = warning_of(trap, input.pod, container)) {
        warnings.push_back(start(container) + *warning);
      }
    }
  }
  return warnings;
}

std::vector<std::string> remote_cache_warnings(const Json& pod, const Selection& selection,
                                               const Frameworks& frameworks) {
  std::vector<std::string> warnings;
  const bool any = std::any_of(frameworks.begin(), frameworks.end(),
                               [](const auto* one) { return !one->redis_env.empty(); });
  for (const size_t index : selection.containers) {
    if (!any) break;
    warnings.push_back(start(container_at(pod, index)) +
                       "PyTorch reaches Redis by Python's package redis; an image without it "
                       "neither reads nor fills spec.remoteCache.redis");
  }
  return warnings;
}

std::vector<std::string> pod_group_warnings(const Json& pod) {
  const Json& labels = object_member(object_member(pod, "metadata"), "labels");
  if (text_member(labels, "kueue.x-k8s.io/pod-group-name").empty()) return {};
  if (annotation(pod, "kueue.x-k8s.io/role-hash")) return {};
  return {
      "compilecache.dev: set the annotation kueue.x-k8s.io/role-hash to the name of the pod's role "
      "in its group; else Kueue lets no pod without the cache replace one with it"};
}

}  // namespace compilecache::webhook
