#include "webhook/namespace_facts.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/quantity.hpp"

namespace compilecache::webhook {

namespace {

using nlohmann::json;

// The member if it is of that type, else an empty value.
json member_of_type(const json& object, const char* name, json::value_t type) {
  if (object.is_object()) {
    const auto found = object.find(name);
    if (found != object.end() && found->type() == type) return *found;
  }
  return json(type);
}
json object_member(const json& object, const char* name) {
  return member_of_type(object, name, json::value_t::object);
}
json array_member(const json& object, const char* name) {
  return member_of_type(object, name, json::value_t::array);
}
std::string text_member(const json& object, const char* name) {
  return member_of_type(object, name, json::value_t::string).get<std::string>();
}

Result<Amounts> amounts(const json& object, const std::string& where) {
  Amounts result;
  for (const auto& [resource, quantity] : object.items()) {
    const std::string text = quantity.is_string() ? quantity.get<std::string>() : quantity.dump();
    const auto amount = parse_quantity_milli(text);
    if (!amount) return unexpected(amount.error().with(where + "." + resource));
    result[resource] = *amount;
  }
  return result;
}

// Reads one list of amounts into `into`; the first error stays.
class Reader {
 public:
  explicit Reader(std::string where) : where_(std::move(where)) {}
  void read(const json& parent, const char* name, Amounts& into) {
    auto read = amounts(object_member(parent, name), where_ + "." + name);
    if (read) {
      into = std::move(*read);
    } else if (!error_) {
      error_ = read.error();
    }
  }
  [[nodiscard]] const std::optional<Error>& error() const { return error_; }

 private:
  std::string where_;
  std::optional<Error> error_;
};

// "cpu" is an old spelling of "requests.cpu". Of a quota that has both, `choose` says which counts.
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
    if (type != "Container" && type != "Pod") continue;
    LimitRule rule;
    rule.for_pod = type == "Pod";
    Reader reader("LimitRange");
    reader.read(item, "min", rule.min);
    reader.read(item, "max", rule.max);
    reader.read(item, "default", rule.default_limit);
    reader.read(item, "defaultRequest", rule.default_request);
    reader.read(item, "maxLimitRequestRatio", rule.max_ratio);
    if (reader.error()) return unexpected(*reader.error());
    rules.push_back(std::move(rule));
  }
  return rules;
}

Result<Quota> parse_resource_quota(const json& object) {
  Quota quota;
  quota.name = text_member(object_member(object, "metadata"), "name");
  const json spec = object_member(object, "spec");
  Reader reader("ResourceQuota " + quota.name);
  reader.read(spec, "hard", quota.hard);
  reader.read(object_member(object, "status"), "used", quota.used);
  if (reader.error()) return unexpected(*reader.error());
  // The API server holds a pod against each.
  quota.hard = normalized(quota.hard, [](int64_t a, int64_t b) { return std::min(a, b); });
  quota.used = normalized(quota.used, [](int64_t a, int64_t b) { return std::max(a, b); });
  for (const json& scope : array_member(spec, "scopes")) {
    if (scope.is_string()) quota.scopes.push_back(scope.get<std::string>());
  }
  const json selector = object_member(spec, "scopeSelector");
  for (const json& expression : array_member(selector, "matchExpressions")) {
    const std::string scope = text_member(expression, "scopeName");
    if (scope != "PriorityClass") {
      quota.scopes.push_back(scope);
    } else if (text_member(expression, "operator") == "In") {
      for (const json& value : array_member(expression, "values")) {
        if (value.is_string()) quota.priority_classes.push_back(value.get<std::string>());
      }
    }
  }
  return quota;
}

}  // namespace compilecache::webhook
