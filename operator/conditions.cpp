#include "operator/conditions.hpp"

#include <algorithm>

#include "base/strings.hpp"

namespace compilecache::controller {
namespace {

struct Summary {
  std::string status, reason, message;
  bool stalled = false;
};

Summary summarize(const std::vector<api::Condition>& conditions, const ConditionInput& input) {
  if (!input.invalid.empty()) return {"False", input.invalid_reason, input.invalid, true};
  if (!input.storage.ready()) {
    return {"False", input.storage.reason, input.storage.message, input.storage.stalled};
  }
  const api::Condition* paused = api::find_condition(conditions, kInjectionPausedCondition);
  if (paused != nullptr && paused->status == "True") {
    return {"False", kInjectionPausedCondition, paused->reason + ": " + paused->message, false};
  }
  return {"True", "Ready", "pods that name this CompileCache get a compile cache", false};
}

}  // namespace

bool update_conditions(std::vector<api::Condition>& conditions, const ConditionInput& input,
                       const std::string& now) {
  const Summary summary = summarize(conditions, input);
  const bool ready = summary.status == "True";
  const bool reconciling = !ready && !summary.stalled;
  auto set = [&](const char* type, const std::string& status, const std::string& reason,
                 const std::string& message) {
    return api::set_condition(conditions, {type, status, reason, message, {}, input.generation},
                              now);
  };
  auto set_abnormal = [&](const char* type, bool is_so) {
    return is_so ? set(type, "True", summary.reason, summary.message)
                 : set(type, "False", "AsExpected", "");
  };
  bool changed = set(kReady, summary.status, summary.reason, summary.message);
  changed |= set(kStorageReady, input.storage.status.empty() ? "Unknown" : input.storage.status,
                 input.storage.reason.empty() ? "NotChecked" : input.storage.reason,
                 input.storage.message);
  changed |= set_abnormal(kReconciling, reconciling);
  changed |= set_abnormal(kStalled, summary.stalled);
  return changed;
}

std::string unknown_frameworks(const std::vector<std::string>& wanted,
                               const std::vector<std::string>& known) {
  std::vector<std::string> unknown;
  for (const std::string& name : wanted) {
    if (std::find(known.begin(), known.end(), name) == known.end()) unknown.push_back(name);
  }
  if (unknown.empty()) return {};
  return "spec.frameworks: \"" + join(unknown, "\", \"") +
         "\" is not in the operator's settings; known are " + join(known, ", ");
}

}  // namespace compilecache::controller
