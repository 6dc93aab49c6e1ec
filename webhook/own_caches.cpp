#include "webhook/own_caches.hpp"

#include <algorithm>
#include <set>

#include "base/strings.hpp"

namespace compilecache::webhook {

namespace {

using frameworks::Framework;

bool sets(const Json& container, const std::string& variable) {
  return find_named(array_member(container, "env"), variable) != nullptr ||
         may_come_from_env_from(container, variable);
}

bool is_set(const Json& pod, const Selection& selection, const std::string& variable) {
  return !variable.empty() &&
         std::any_of(selection.containers.begin(), selection.containers.end(),
                     [&](size_t index) { return sets(container_at(pod, index), variable); });
}

}  // namespace

Decided<std::vector<const Framework*>> without_own_caches(
    const Json& pod, const Selection& selection, const PodAnnotations& annotations,
    const std::vector<const Framework*>& frameworks) {
  std::set<std::string> left_alone;
  for (const Framework* framework : frameworks) {
    if ((framework->only_if_unset || annotations.only_if_unset) &&
        is_set(pod, selection, framework->directory_variable)) {
      left_alone.insert(framework->name);
    }
  }
  const auto goes_along = [&](const Framework& framework) {
    return std::any_of(framework.part_of.begin(), framework.part_of.end(),
                       [&](const std::string& whole) { return left_alone.contains(whole); }) &&
           !is_set(pod, selection, framework.directory_variable);
  };
  std::vector<const Framework*> remaining;
  for (const Framework* framework : frameworks) {
    if (!left_alone.contains(framework->name) && !goes_along(*framework)) {
      remaining.push_back(framework);
    }
  }
  if (remaining.empty() && !frameworks.empty()) return skip(api::InjectionReason::kOwnCaches);
  return remaining;
}

bool may_come_from_env_from(const Json& container, const std::string& variable) {
  const auto sources = array_member(container, "envFrom");
  return std::any_of(sources.begin(), sources.end(), [&](const Json& source) {
    return variable.starts_with(text_member(source, "prefix"));
  });
}

}  // namespace compilecache::webhook
