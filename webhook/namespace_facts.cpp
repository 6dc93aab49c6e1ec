#include "webhook/namespace_facts.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "base/quantity.hpp"
#include "base/strings.hpp"

namespace compilecache::webhook {

namespace {

using nlohmann::json;

// The member if it is of that type, else an empty value.
const json& object_member(const json& object, const char* name) {
  static const json kNone = json::object();
  const auto found = object.is_object() ? object.find(name) : object.end();
  return found != object.end() && found->is_object() ? *found : kNone;
}
const json& array_member(const json& object, const char* name) {
  static const json kNone = json::array();
  const auto found = object.is_object() ? object.find(name) : object.end();
  return found != object.end() && found->is_array() ? *found : kNone;
}
std::string text_member(const json& object, const char* name) {
  const auto found = object.is_object() ? object.find(name) : object.end();
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

constexpr std::array kResources{"cpu", "memory", "ephemeral-storage"};
constexpr std::array kLists{"min", "max", "default", "defaultRequest", "maxLimitRequestRatio"};
// A LimitRange has one item of each type, of which there are three, and a quota six scopes.
constexpr size_t kMostRules = 8, kMostScopes = 16, kLongestName = 253;

// The names of the resources in a quota: "cpu", "requests.cpu", "limits.cpu", ...
std::vector<std::string> quota_keys() {
  std::vector<std::string> keys;
  for (const std::string resource : kResources) {
    for (const char* list : {"", "requests.", "limits."}) keys.push_back(list + resource);
  }
  return keys;
}

// One that cannot be read leaves the others as they are.
template <typename Keys>
Amounts amounts(const json& object, const Keys& keys) {
  Amounts result;
  for (const auto& key : keys) {
    const auto found = object.find(key);
    if (found == object.end()) continue;
    const auto amount = parse_quantity_milli(found->is_string() ? found->template get<std::string>()
                                                                : found->dump());
    if (amount) result[key] = *amount;
  }
  return result;
}

// "cpu" is an old spelling of "requests.cpu". `choose` says which counts in a quota with both.
template <typename Choose>
Amounts normalized(const Amounts& amounts, const Choose& choose) {
  Amounts result;
  for (const auto& [resource, amount] : amounts) {
    const bool bare = resource == "cpu" || resource == "memory" || resource == "ephemeral-storage";
    const auto [at, is_new] = result.emplace(bare ? "requests." + resource : resource, amount);
    if (!is_new) at->second = choose(at->second, amount);
  }
  return result;
}

}  // namespace

bool LimitRule::demands_request(const std::string& resource) const {
  if (for_pod) return false;
  return min.contains(resource) || default_request.contains(resource) || demands_limit(resource);
}

bool LimitRule::demands_limit(const std::string& resource) const {
  if (for_pod) return false;
  return max.contains(resource) || default_limit.contains(resource) || max_ratio.contains(resource);
}

Result<std::vector<LimitRule>> parse_limit_range(const json& object) {
  std::vector<LimitRule> rules;
  for (const json& item : array_member(object_member(object, "spec"), "limits")) {
    const std::string type = text_member(item, "type");
    if ((type != "Container" && type != "Pod") || rules.size() == kMostRules) continue;
    const auto list = [&](const char* name) {
      return amounts(object_member(item, name), kResources);
    };
    rules.push_back({type == "Pod", list("min"), list("max"), list("default"),
                     list("defaultRequest"), list("maxLimitRequestRatio")});
  }
  return rules;
}

std::vector<std::string> limit_range_fields() {
  std::vector<std::string> fields{"/spec/limits/type"};
  for (const char* list : kLists) {
    for (const char* resource : kResources) {
      fields.push_back(std::string("/spec/limits/") + list + "/" + resource);
    }
  }
  return fields;
}

Result<Quota> parse_resource_quota(const json& object) {
  Quota quota;
  quota.name = first_bytes(text_member(object_member(object, "metadata"), "name"), kLongestName);
  const json& spec = object_member(object, "spec");
  quota.hard = amounts(object_member(spec, "hard"), quota_keys());
  quota.used = amounts(object_member(object_member(object, "status"), "used"), quota_keys());
  // The API server holds a pod against each.
  quota.hard = normalized(quota.hard, [](int64_t a, int64_t b) { return std::min(a, b); });
  quota.used = normalized(quota.used, [](int64_t a, int64_t b) { return std::max(a, b); });
  const auto add_scope = [&](const std::string& scope) {
    if (quota.scopes.size() < kMostScopes)
      quota.scopes.emplace_back(first_bytes(scope, kLongestName));
  };
  for (const json& scope : array_member(spec, "scopes")) {
    if (scope.is_string()) add_scope(scope.get<std::string>());
  }
  std::set<std::string> classes;
  const json& selector = object_member(spec, "scopeSelector");
  for (const json& expression : array_member(selector, "matchExpressions")) {
    const std::string scope = text_member(expression, "scopeName");
    if (scope != "PriorityClass") {
      add_scope(scope);
    } else if (text_member(expression, "operator") == "In") {
      for (const json& value : array_member(expression, "values")) {
        if (classes.size() > kMostPriorityClasses) break;
        if (value.is_string()) classes.emplace(first_bytes(value.get<std::string>(), kLongestName));
      }
    }
  }
  if (classes.size() <= kMostPriorityClasses) {
    quota.priority_classes.assign(classes.begin(), classes.end());
  }
  return quota;
}

std::vector<std::string> resource_quota_fields() {
  std::vector<std::string> fields{"/spec/scopes", "/spec/scopeSelector"};
  for (const std::string& key : quota_keys()) {
    fields.push_back("/spec/hard/" + key);
    fields.push_back("/status/used/" + key);
  }
  return fields;
}

}  // namespace compilecache::webhook
