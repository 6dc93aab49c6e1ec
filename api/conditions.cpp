#include "api/conditions.hpp"

#include <nlohmann/json.hpp>

#include "api/json_fields.hpp"

namespace compilecache::api {

using nlohmann::json;

const Condition* find_condition(const std::vector<Condition>& conditions, const std::string& type) {
  for (const Condition& condition : conditions) {
    if (condition.type == type) return &condition;
  }
  return nullptr;
}

bool is_true(const std::vector<Condition>& conditions, const std::string& type) {
  const Condition* condition = find_condition(conditions, type);
  return condition != nullptr && condition->status == "True";
}

bool is_not_asked(const std::vector<Condition>& conditions) {
  const Condition* unheard = find_condition(conditions, kPodsUnheardCondition);
  return unheard != nullptr && unheard->status == "True" && unheard->reason == kNotAskedReason;
}

bool set_condition(std::vector<Condition>& conditions, Condition condition,
                   const std::string& now) {
  condition.last_transition_time = now;
  for (Condition& existing : conditions) {
    if (existing.type != condition.type) continue;
    if (existing.status == condition.status) {
      condition.last_transition_time = existing.last_transition_time;
      if (existing.reason == condition.reason && existing.message == condition.message &&
          existing.observed_generation == condition.observed_generation) {
        return false;
      }
    }
    existing = std::move(condition);
    return true;
  }
  conditions.push_back(std::move(condition));
  return true;
}

json conditions_json(const std::vector<Condition>& conditions) {
  json list = json::array();
  for (const Condition& condition : conditions) {
    list.push_back({{"type", condition.type},
                    {"status", condition.status},
                    {"reason", condition.reason},
                    {"message", condition.message},
                    {"lastTransitionTime", condition.last_transition_time},
                    {"observedGeneration", condition.observed_generation}});
  }
  return list;
}

std::vector<Condition> parse_conditions(const json& status) {
  std::vector<Condition> conditions;
  for (const json& item : child(status, "conditions")) {
    conditions.push_back(
        {field<std::string>(item, "type", ""), field<std::string>(item, "status", "Unknown"),
         field<std::string>(item, "reason", ""), field<std::string>(item, "message", ""),
         field<std::string>(item, "lastTransitionTime", ""),
         field<int64_t>(item, "observedGeneration", 0)});
  }
  return conditions;
}

}  // namespace compilecache::api
