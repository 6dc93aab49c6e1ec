#include "operator/caches/conditions.hpp"

#include <algorithm>

#include "api/names.hpp"
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
  if (!input.unreachable.empty()) {
    return {"False", api::kOperatorUnreachableReason,
            "pods and Jobs cannot reach the operator: " + input.unreachable +
                ". Pods that are created meanwhile save nothing until they are recreated",
            false};
  }
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

// "2 of 5 pods that it injected (a, b)"
std::string pods_in_words(std::vector<std::string> names, const Silence& silence) {
  const size_t count = names.size();
  const size_t all = silence.unheard.size() + silence.astray.size() + silence.heard;
  if (names.size() > kMostNames) names.resize(kMostNames);
  return std::to_string(count) + " of " + std::to_string(all) + " pods that it injected (" +
         join(names, ", ") + (names.size() < count ? ", ...)" : ")");
}

std::string astray_message(const Silence& silence) {
  return "the operator has never received a call from " + pods_in_words(silence.astray, silence) +
         ": its Service " + api::kAgentService +
         " was missing or had another address when they were created, and they keep that. Their "
         "caches are not saved until they are recreated";
}

std::string unheard_message(const Silence& silence) {
  std::string message =
      silence.unheard.empty()
          ? "the operator received no call from the last pods that it injected in this namespace"
          : "the operator has never received a call from " +
                pods_in_words(silence.unheard, silence);
  message +=
      ": their caches are not saved. Let pods of this namespace reach it; "
      "docs/run/network-policy.md has the NetworkPolicy that is needed";
  if (silence.not_asked) message += ". Until one calls, new pods do not wait for an answer";
  if (!silence.astray.empty()) message += ". Besides, " + astray_message(silence);
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
  auto set_abnormal = [&](const char* type, bool is_so, const char* as_expected) {
    return is_so ? set(type, "True", summary.reason, summary.message)
                 : set(type, "False", "AsExpected", as_expected);
  };
  bool changed = set(api::kReadyCondition, summary.status, summary.reason, summary.message);
  changed |= set(
      api::kStorageReadyCondition, input.storage.status.empty() ? "Unknown" : input.storage.status,
      input.storage.reason.empty() ? "NotChecked" : input.storage.reason, input.storage.message);
  changed |= set_abnormal(api::kReconcilingCondition, reconciling, "nothing is left to do");
  changed |= set_abnormal(api::kStalledCondition, summary.stalled, "nothing needs a change by you");
  return changed;
}

bool update_unheard(std::vector<api::Condition>& conditions, const Silence& silence,
                    int64_t generation, const std::string& now) {
  const bool denied = !silence.unheard.empty() || silence.not_asked;
  if (!denied && !silence.astray.empty()) {
    return api::set_condition(conditions,
                              {api::kPodsUnheardCondition,
                               "True",
                               api::kAddressChangedReason,
                               astray_message(silence),
                               {},
                               generation},
                              now);
  }
  if (!denied) {
    return api::set_condition(conditions,
                              {api::kPodsUnheardCondition,
                               "False",
                               "AsExpected",
                               "injected pods reach the operator",
                               {},
                               generation},
                              now);
  }
  std::string message = unheard_message(silence);
  // Only a previous leader knew its unheard pods.
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

bool update_registry_trouble(std::vector<api::Condition>& conditions,
                             const std::optional<OwnRegistryTrouble>& trouble, int64_t generation,
                             const std::string& now) {
  if (!trouble) {
    return std::erase_if(conditions, [](const auto& condition) {
             return condition.type == kRegistryTroubleCondition;
           }) > 0;
  }
  const bool is_so = !trouble->reason.empty();
  return api::set_condition(conditions,
                            {kRegistryTroubleCondition,
                             is_so ? "True" : "False",
                             is_so ? trouble->reason : "AsExpected",
                             is_so ? trouble->message : "the installation's registry works",
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

bool update_savers(std::vector<api::Condition>& conditions, const api::CompileCache& cache,
                   const std::vector<std::shared_ptr<const api::CompileCacheArchive>>& archives,
                   const std::string& now) {
  constexpr size_t kMostNamed = 5;
  const auto& allowed = cache.spec.save.allowed_service_accounts;
  if (allowed.empty()) {
    return std::erase_if(conditions, [](const auto& condition) {
             return condition.type == api::kSaversAllowedCondition;
           }) > 0;
  }
  std::vector<std::string> withheld;
  size_t count = 0;
  for (const auto& archive : archives) {
    if (!archive->head.exists() || api::saved_by_allowed(archive->head, allowed)) continue;
    if (++count > kMostNamed) continue;
    std::vector<std::string> accounts = archive->head.earlier_accounts;
    accounts.push_back(archive->head.service_account);
    withheld.push_back(archive->metadata.name + " (" + join(accounts, ", ") + ")");
  }
  api::Condition condition{.type = api::kSaversAllowedCondition,
                           .status = count == 0 ? "True" : "False",
                           .reason = count == 0 ? "AsExpected" : "SaverNotAllowed",
                           .message = "allowed service accounts have saved all archives",
                           .observed_generation = cache.metadata.generation};
  if (count > 0) {
    condition.message =
        "no pod is given the newest generation of archives that may hold files of other service "
        "accounts than spec.save.allowedServiceAccounts names: " +
        join(withheld, ", ") + (count > kMostNamed ? " and others" : "") +
        "; the next save of an allowed account replaces it";
  }
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
