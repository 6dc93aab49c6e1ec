#include "operator/caches/conditions.hpp"

#include <algorithm>

#include "api/store_ref.hpp"
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
  const api::Condition* paused = api::find_condition(conditions, api::kInjectionPausedCondition);
  if (paused != nullptr && paused->status == "True") {
    return {"False", api::kInjectionPausedCondition, paused->reason + ": " + paused->message,
            false};
  }
  if (api::is_not_asked(conditions)) {
    const auto* unheard = api::find_condition(conditions, api::kPodsUnheardCondition);
    return {"False", api::kPodsUnheardCondition, unheard->message, false};
  }
  return {"True", "Ready", "pods that name this CompileCache get a compile cache", false};
}

constexpr size_t kMostNames = 3;

std::string unheard_message(const Silence& silence) {
  std::vector<std::string> names = silence.unheard;
  if (names.size() > kMostNames) names.resize(kMostNames);
  const size_t all = silence.unheard.size() + silence.heard;
  std::string message =
      names.empty()
          ? "the operator did not hear of the last pods that it injected in this namespace"
          : "the operator has never heard of " + std::to_string(silence.unheard.size()) + " of " +
                std::to_string(all) + " pods that it injected (" + join(names, ", ") +
                (names.size() < silence.unheard.size() ? ", ...)" : ")");
  message +=
      ": nothing of theirs is saved. Let pods of this namespace reach it; docs/network-policy.md "
      "has "
      "the NetworkPolicy that is needed";
  if (silence.not_asked) message += ". Until one is heard new pods do not wait for an answer";
  return message;
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
  bool changed = set(api::kReadyCondition, summary.status, summary.reason, summary.message);
  changed |= set(
      api::kStorageReadyCondition, input.storage.status.empty() ? "Unknown" : input.storage.status,
      input.storage.reason.empty() ? "NotChecked" : input.storage.reason, input.storage.message);
  changed |= set_abnormal(api::kReconcilingCondition, reconciling);
  changed |= set_abnormal(api::kStalledCondition, summary.stalled);
  return changed;
}

bool update_unheard(std::vector<api::Condition>& conditions, const Silence& silence,
                    int64_t generation, const std::string& now) {
  const bool is_so = !silence.unheard.empty() || silence.not_asked;
  if (!is_so) {
    return api::set_condition(
        conditions, {api::kPodsUnheardCondition, "False", "AsExpected", "", {}, generation}, now);
  }
  std::string message = unheard_message(silence);
  // Which pods a previous leader did not hear of only that leader knew.
  const api::Condition* before = api::find_condition(conditions, api::kPodsUnheardCondition);
  if (silence.unheard.empty() && before != nullptr && before->reason == api::kNotAskedReason) {
    message = before->message;
  }
  return api::set_condition(conditions,
                            {api::kPodsUnheardCondition,
                             "True",
                             silence.not_asked ? api::kNotAskedReason : "Unheard",
                             std::move(message),
                             {},
                             generation},
                            now);
}

namespace {

std::string copied_message(const api::LastCopy& last) {
  std::string message =
      "archives of " + last.from + " that are here: " + std::to_string(last.archives);
  if (last.left_out > 0) {
    message += "; left out: " + std::to_string(last.left_out) +
               ", which the old store has lost or which are not to be trusted (the Job's log names "
               "them)";
  }
  return message + ". spec.storage.copyFrom may go, and the old store";
}

api::Condition copied_condition(const api::CompileCache& cache, const std::string& from,
                                const CopyFacts& facts) {
  const bool tried = facts.last.from == from;
  if (api::copies_from_itself(cache)) {
    return {.status = "False",
            .reason = "SameStore",
            .message =
                "spec.storage.copyFrom names this CompileCache's own store; name the one "
                "that has the archives, or take it out"};
  }
  if (facts.last.done(from))
    return {.status = "True", .reason = "Copied", .message = copied_message(facts.last)};
  if (!facts.trouble.empty() || tried) {
    return {.status = "False",
            .reason = "CopyFailed",
            .message = (facts.trouble.empty() ? facts.last.error : facts.trouble) +
                       "; it is tried again, at the latest with the next sweep "
                       "(spec.retention.sweepInterval), and pods start cold where an archive is "
                       "missing"};
  }
  return {.reason = "Copying",
          .message =
              "a Job is to copy the archives of " + from + "; pods start cold until they are here"};
}

}  // namespace

bool update_copied(std::vector<api::Condition>& conditions, const api::CompileCache& cache,
                   const CopyFacts& facts, const std::string& now) {
  const std::string from = api::copy_source_in_words(cache);
  if (from.empty()) {
    return std::erase_if(conditions, [](const auto& condition) {
             return condition.type == api::kArchivesCopiedCondition;
           }) > 0;
  }
  api::Condition condition = copied_condition(cache, from, facts);
  condition.type = api::kArchivesCopiedCondition;
  condition.observed_generation = cache.metadata.generation;
  return api::set_condition(conditions, std::move(condition), now);
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
