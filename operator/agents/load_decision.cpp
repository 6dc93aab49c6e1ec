#include "operator/agents/load_decision.hpp"

#include <algorithm>
#include <tuple>

#include "api/load_budget.hpp"
#include "operator/archives/archive_trust.hpp"

namespace compilecache::controller {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kAskAgain{1'000};
// Rarer when it takes minutes; and all who wait ask a hundred times a second together, so that a
// thousand of them do not keep the operator from answering.
constexpr milliseconds kAskAgainAlone{5'000};
constexpr milliseconds kAskAgainLatest{10'000};
constexpr milliseconds kAskOfEach{10};
constexpr int kAskAgainShare = 8;
// A place that is free is not to stay empty.
constexpr milliseconds kAskForPlaceSoonest{100};
constexpr int kAskForPlaceTimes = 4;  // at least, within the budget
constexpr milliseconds kAskForDuePlace{500};
constexpr milliseconds kLongestSettling{30'000};

api::LoadAnswer none(std::string reason) {
  api::LoadAnswer answer;
  answer.decision = api::LoadDecision::kNone;
  answer.reason = std::move(reason);
  return answer;
}

api::LoadAnswer wait(std::string reason, milliseconds left) {
  api::LoadAnswer answer;
  answer.decision = api::LoadDecision::kWait;
  answer.reason = std::move(reason);
  answer.retry_after_ms = std::clamp(left, milliseconds(1), kAskAgain).count();
  return answer;
}

// For the first pod: rarer as it takes longer, and not all at the same moment.
api::LoadAnswer wait_for_first(const LoadSituation& situation, milliseconds waited) {
  const milliseconds crowd = kAskOfEach * static_cast<int64_t>(situation.waiting);
  const milliseconds usual =
      std::clamp(std::max(std::min(waited / kAskAgainShare, kAskAgainAlone), crowd), kAskAgain,
                 kAskAgainLatest);
  const double share = 0.75 + 0.5 * std::clamp(situation.spread, 0.0, 1.0);
  const auto pause = std::chrono::duration_cast<milliseconds>(usual * share);
  api::LoadAnswer answer = wait("waiting_for_first", kAskAgain);
  answer.retry_after_ms =
      std::clamp(pause, milliseconds(1), situation.wait_for_first - waited).count();
  return answer;
}

struct Choice {
  const api::CompileCacheArchive* archive = nullptr;
  const api::ArchiveHead* head = nullptr;
  api::Match match = api::Match::kNone;
  api::CpuFit fit = api::CpuFit::kOther;
};

bool fits_cpu(const LoadSituation& situation, api::CpuFit fit) {
  return fit != api::CpuFit::kOther && (fit != api::CpuFit::kUnproven || situation.uses_gpu);
}

// Of fallbacks the better one compares greater. A workload is the pod's own word, an account is
// not.
auto rank_of(const LoadSituation& situation, const Choice& choice) {
  const api::ArchiveHead& head = *choice.head;
  const bool own_account =
      !head.service_account.empty() && head.service_account == situation.service_account;
  const bool own_workload = !head.workload.empty() && head.workload == situation.workload;
  const bool proven = choice.fit != api::CpuFit::kUnproven;
  // RFC 3339 in UTC sorts by time.
  return std::make_tuple(own_account, own_account && own_workload, proven, head.saved_at);
}

bool is_better(const LoadSituation& situation, const Choice& one, const Choice& other) {
  if (other.head == nullptr) return true;
  if (one.match != other.match) return one.match == api::Match::kExact;
  if (one.match == api::Match::kExact) return one.fit > other.fit;
  return rank_of(situation, one) > rank_of(situation, other);
}

// The generation that the pod's group was given, where this archive has it still.
const api::ArchiveHead* head_given(const LoadSituation& situation,
                                   const api::CompileCacheArchive& archive,
                                   const GroupAnswer& given) {
  if (archive.metadata.name != given.archive) return nullptr;
  const auto distrusted = distrusted_digests(archive);
  for (const api::ArchiveHead* head : {&archive.head, &archive.previous}) {
    const bool is_it = head->exists() && head->manifest_digest == given.manifest;
    if (is_it && !is_distrusted(*head, distrusted) &&
        api::saved_by_allowed(*head, situation.allowed_service_accounts))
      return head;
  }
  return nullptr;
}

// `given`: that generation alone; null: the best.
Choice choose(const LoadSituation& situation, const GroupAnswer* given = nullptr) {
  Choice best;
  for (const auto& archive : situation.archives) {
    if (archive->metadata.deleting) continue;
    Choice one{archive.get(),
               given == nullptr ? usable_head(*archive, situation.allowed_service_accounts)
                                : head_given(situation, *archive, *given),
               api::Match::kExact, api::cpu_fit(archive->key, situation.host_cpu)};
    if (one.head == nullptr || !fits_cpu(situation, one.fit)) continue;
    if (!api::is_same_but_cpu(archive->key, *situation.key)) {
      if (!situation.fallback_compatible || !api::is_compatible(archive->key, *situation.key))
        continue;
      one.match = api::Match::kCompatible;
    }
    if (is_better(situation, one, best)) best = one;
  }
  return best;
}

// Why there is nothing to load.
std::string why_none(const LoadSituation& situation) {
  std::string why = "no_archive";
  for (const auto& archive : situation.archives) {
    if (!api::is_same_but_cpu(archive->key, *situation.key)) continue;
    const api::CpuFit fit = api::cpu_fit(archive->key, situation.host_cpu);
    if (fits_cpu(situation, fit)) {
      if (is_corrupt(*archive)) return "corrupt";
      if (is_suspect(*archive)) return "suspect";
      if (usable_head(*archive) != nullptr) return kSaverNotAllowed;
    } else if (usable_head(*archive) != nullptr && why != "cpu_mismatch") {
      why = fit == api::CpuFit::kOther ? "cpu_mismatch" : "cpu_unknown";
    }
  }
  return why;
}

api::LoadAnswer load(const Choice& choice, milliseconds budget) {
  api::LoadAnswer answer;
  answer.decision = api::LoadDecision::kLoad;
  answer.match = choice.match;
  answer.archive = choice.archive->metadata.name;
  answer.manifest_digest = choice.head->manifest_digest;
  answer.generation = choice.head->generation;
  answer.compressed_bytes = choice.head->compressed_bytes;
  answer.plain_bytes = choice.head->plain_bytes;
  answer.budget_ms = budget.count();
  return answer;
}

api::LoadAnswer decide(const LoadSituation& situation) {
  if (situation.mode == api::Mode::kRefresh) return none("mode_refresh");
  const milliseconds waited = situation.waited - situation.waited_for_place;
  const bool decided = situation.given_to_group.has_value();
  if (!decided && situation.first_is_compiling && waited < situation.wait_for_first) {
    return wait_for_first(situation, waited);
  }
  const GroupAnswer* given = decided ? &*situation.given_to_group : nullptr;
  if (given != nullptr && given->manifest.empty()) return none("group_cold");
  Choice choice = given == nullptr ? Choice() : choose(situation, given);
  if (choice.head == nullptr) choice = choose(situation);
  if (choice.head == nullptr) return none(why_none(situation));
  const milliseconds left = api::load_budget(situation.timeout, choice.head->compile_seconds,
                                             choice.head->compressed_bytes) -
                            situation.waited_for_place;
  if (left <= milliseconds(0)) return none("too_many_loads");
  if (situation.too_many_loads) {
    api::LoadAnswer answer = wait("too_many_loads", left);
    if (situation.place_due) {
      const milliseconds soon =
          std::clamp(*situation.place_due, kAskForPlaceSoonest, kAskForDuePlace);
      answer.retry_after_ms = std::min(left, soon).count();
      return answer;
    }
    const milliseconds crowd = kAskOfEach * static_cast<int64_t>(situation.waiting);
    const milliseconds pause =
        std::max(std::min({crowd, left / kAskForPlaceTimes, kAskAgainLatest}), kAskForPlaceSoonest);
    answer.retry_after_ms = std::min(left, pause).count();
    return answer;
  }
  return load(choice, left);
}

}  // namespace

milliseconds settle_time(const api::CommitRequest& saved) {
  if (saved.complete) return milliseconds(0);
  const double half = std::clamp(saved.compile_seconds * 500, 0.0, 1.0 * kLongestSettling.count());
  const milliseconds wanted(static_cast<int64_t>(half));
  const milliseconds missing = wanted - milliseconds(std::max<int64_t>(0, saved.still_ms));
  if (missing <= milliseconds(0)) return milliseconds(0);
  // Not before the saver could see that more is being compiled.
  const milliseconds noticed(
      std::clamp<int64_t>(saved.notices_within_ms, 0, kLongestSettling.count()));
  return std::max(missing, noticed);
}

api::LoadAnswer decide_load(const LoadSituation& situation) {
  if (!situation.key) {
    // Only the node's label may still come, or the facts of a device's driver that is being
    // restarted; anything else is final.
    const Error& error = situation.key.error();
    const bool unlabelled = error.reason.empty() && error.code == ErrorCode::kUnavailable;
    const std::string otherwise = error.reason.empty() ? "key_unknown" : error.reason;
    const std::string why = unlabelled ? "gpu_product_unknown" : otherwise;
    const bool may_come = unlabelled || error.reason == api::kDeviceNotPublished;
    if (may_come && situation.waited < situation.label_wait) {
      return wait(why, situation.label_wait - situation.waited);
    }
    return none(why);
  }
  api::LoadAnswer answer = decide(situation);
  answer.key = *situation.key;
  if (const auto product = situation.key->find(api::kGpuProductPart);
      product != situation.key->end()) {
    answer.gpu_product = product->second;
  }
  return answer;
}

}  // namespace compilecache::controller
