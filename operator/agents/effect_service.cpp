#include "operator/agents/effect_service.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/log.hpp"
#include "base/strings.hpp"
#include "base/time_format.hpp"
#include "operator/agents/agent_words.hpp"

namespace compilecache::controller {
namespace {

constexpr size_t kImageLength = 512;
constexpr size_t kMostRankDirectories = 64;  // as agents report at most
// In seconds; what an agent says is not to be believed blindly.
constexpr double kLongestCompile = 1e7;

// Of a pod, in the ledger: what it said of its last save when that was counted.
struct SavingPod {
  std::string said;
};

// Why a saver did not save although all is well: the head holds it, or there was nothing, or others
// were at it.
bool is_unchanged(const std::string& reason) {
  return reason == "unchanged" || reason == "already_current" || reason == "saved_once";
}
bool is_idle(const std::string& reason) {
  return reason == "nothing_to_save" || reason == "saving_is_off" || reason == "busy";
}

}  // namespace

Status EffectService::effect(const Caller& caller, const api::EffectReport& report) {
  if (const Status ok = check_application(caller, report.cache); !ok) return ok;
  count_save(caller, report);
  learn_owner(caller, report);
  note_compiling(caller, report);
  judge(caller, report);
  note_ranks(caller, report);
  return {};
}

// Reports repeat the last save's outcome; each change of it counts once. Commits were counted when
// they were made.
void EffectService::count_save(const Caller& caller, const api::EffectReport& report) {
  const std::optional<api::Outcome> outcome = report.save_outcome;
  if (!outcome) return;
  const std::string reason = cut(report.save_reason, kReasonLength);
  const std::string said = std::string(api::to_string(*outcome)) + "/" + reason;
  const bool is_news = parts_.pods.edit<SavingPod>(
      caller.pod->uid, [&](SavingPod& pod) { return std::exchange(pod.said, said) != said; });
  if (!is_news) return;
  const std::string& cache = caller.cache->metadata.name;
  const auto count = [&](api::SaveOutcome seen) {
    parts_.stats.saved(caller.key(), seen, "");
    parts_.metrics.save(caller.ns(), cache, seen);
    parts_.stats.update_recent(caller.key(), caller.pod->uid, [&](api::RecentPod& pod) {
      pod.save = api::to_string(seen);
      pod.save_reason = reason;
    });
  };
  const auto warn = [&](const char* event) {
    record_event(parts_.events, caller, kube::EventType::kWarning, event,
                 reason + ": " + cut(report.save_message, kMessageLength));
  };
  if (*outcome == api::Outcome::kSuccess && !report.save_reason.empty()) {  // but not all
    parts_.stats.update_recent(caller.key(), caller.pod->uid,
                               [&](api::RecentPod& pod) { pod.save_reason = reason; });
    return warn("CacheSaveIncomplete");
  }
  if (*outcome == api::Outcome::kSuccess || is_idle(report.save_reason)) return;
  if (is_unchanged(report.save_reason)) return count(api::SaveOutcome::kUnchanged);
  if (*outcome == api::Outcome::kError && report.save_reason != "too_large") {
    count(api::SaveOutcome::kFailed);
    parts_.wishes.want_if_it_helps(caller, report.save_reason);
    return warn("CacheSaveFailed");
  }
  count(api::SaveOutcome::kRefused);
  if (const auto key = key_of(parts_.view, caller)) {
    parts_.traffic.gives_up(archive_of(caller, *key), caller.pod->uid);
  }
  warn("CacheSaveRefused");
}

// The savers of later pods of the image get that user, where such a pod may have it
// (webhook/security_context.hpp).
void EffectService::learn_owner(const Caller& caller, const api::EffectReport& report) {
  const std::string& image = caller.pod->injection->key_basis.image;
  const int64_t user = report.unreadable_owner;
  if (report.unreadable_files <= 0 || !api::is_user(user) || image.empty()) return;
  if (image.size() > kImageLength) return;
  const std::string now = format_time(parts_.clock.wall());
  if (!parts_.stats.note_owner(caller.key(), image, user, now)) return;
  record_event(
      parts_.events, caller, kube::EventType::kWarning, "CacheFilesUnreadable",
      std::to_string(report.unreadable_files) + " files of image " + image +
          " are not saved, as only user " + std::to_string(user) +
          " may read them; later pods' savers run as that user, where pod and containers name "
          "none (or set spec.save.runAsUser)");
}

void EffectService::note_compiling(const Caller& caller, const api::EffectReport& report) {
  if (report.compiling) {
    if (const auto key = key_of(parts_.view, caller)) {
      parts_.traffic.compiling(archive_of(caller, *key), caller.pod->uid);
    }
  }
  parts_.stats.update_recent(caller.key(), caller.pod->uid, [&](api::RecentPod& pod) {
    pod.loaded_entries = std::max<int64_t>(0, report.loaded_entries);
    pod.read_entries = std::max<int64_t>(0, report.read_entries);
    pod.new_entries = std::max<int64_t>(0, report.new_entries);
    pod.compile_milliseconds =
        std::llround(std::clamp(report.compile_seconds, 0.0, kLongestCompile) * 1000);
    pod.compiled = cut(report.new_names, kToldNames);
    pod.differing = cut(report.differing, kToldDiffering);
  });
}

void EffectService::judge(const Caller& caller, const api::EffectReport& report) {
  if (report.counted_effect) {
    parts_.stats.recall(caller.key(), caller.pod->uid, *report.counted_effect);
  }
  const auto load = parts_.stats.load_of(caller.key(), caller.pod->uid);
  // There is an effect only of something that was loaded. A pod that loaded under a previous leader
  // may be unknown here; then its own word has to do.
  const bool warm = load ? api::is_warm(*load) : report.loaded_entries > 0;
  if (!report.effect || !warm) return;
  const auto move =
      parts_.stats.effect(caller.key(), {.pod = caller.pod->name,
                                         .pod_uid = caller.pod->uid,
                                         .node = caller.node(),
                                         .gpu_product = product_of(parts_.view, caller),
                                         .effect = *report.effect,
                                         .reason = cut(report.reason, kReasonLength),
                                         .seconds_saved = seconds_saved(caller, report),
                                         .time = format_time(parts_.clock.wall())});
  if (move.before != report.effect) tell_effect(caller, report, move);
}

// For the archive of its own key, which its next pod loads.
void EffectService::note_ranks(const Caller& caller, const api::EffectReport& report) {
  const std::string& member = caller.pod->group.member;
  const auto& directories = report.rank_directories;
  if (member.empty() || directories.empty() || directories.size() > kMostRankDirectories) return;
  const auto key = key_of(parts_.view, caller);
  if (!key) return;
  const std::string name = api::archive_name(caller.cache->metadata.name, *key);
  parts_.registry.ranks(caller.ns(), name, member, caller.pod->uid, directories);
}

void EffectService::tell_effect(const Caller& caller, const api::EffectReport& report,
                                const CacheStats::EffectMove& move) {
  const api::Effect effect = *report.effect;
  if (!move.archive.empty()) {
    parts_.registry.effect(caller.ns(), move.archive, move.before, effect);
  }
  const std::string& cache = caller.cache->metadata.name;
  parts_.metrics.effect(caller.ns(), cache, product_of(parts_.view, caller), effect);
  if (effect == api::Effect::kNone) {
    record_event(parts_.events, caller, kube::EventType::kWarning, "CacheNotEffective",
                 "loaded archive " + move.archive +
                     ", but nothing of it was used: " + compiled_anew(report));
  } else if (effect == api::Effect::kPartial) {
    record_event(parts_.events, caller, kube::EventType::kNormal, "CachePartlyEffective",
                 "loaded archive " + move.archive + " and used it; " + compiled_anew(report));
  }
  log_info("effect judged", {{"reason", cut(report.reason, kReasonLength)},
                             {"effect", std::string(api::to_string(effect))},
                             {"namespace", caller.ns()},
                             {"cache", cache},
                             {"pod", caller.pod->name},
                             {"archive", move.archive},
                             {"read_entries", std::to_string(report.read_entries)},
                             {"new_entries", std::to_string(report.new_entries)},
                             {"compiled", join(cut(report.new_names, kToldNames), ", ")},
                             {"differing", join(cut(report.differing, kToldDiffering), ", ")}});
}

// The share of the loaded entries that the app has read.
double EffectService::seconds_saved(const Caller& caller, const api::EffectReport& report) const {
  if (report.effect != api::Effect::kFull && report.effect != api::Effect::kPartial) return 0;
  const auto worth = worth_of(caller);
  // What a previous leader has counted stays, where what it knew is not to be had any more.
  if (!worth) return parts_.stats.seconds_of(caller.key(), caller.pod->uid);
  if (report.loaded_entries <= 0) return *worth;
  const double share =
      static_cast<double>(report.read_entries) / static_cast<double>(report.loaded_entries);
  return *worth * std::clamp(share, 0.0, 1.0);
}

// How long others compiled what the pod loaded. Where the load was reported to a previous leader
// the generation tells, as long as it is the head or the one before: the archive may have grown.
std::optional<double> EffectService::worth_of(const Caller& caller) const {
  if (const auto worth = parts_.stats.worth_of(caller.key(), caller.pod->uid)) return worth;
  const auto archive =
      parts_.view.archive(caller.ns(), parts_.stats.archive_of(caller.key(), caller.pod->uid));
  const int64_t generation = parts_.stats.generation_of(caller.key(), caller.pod->uid);
  if (archive == nullptr || generation == 0) return std::nullopt;
  for (const api::ArchiveHead* head : {&archive->head, &archive->previous}) {
    if (head->generation == generation) return head->compile_seconds;
  }
  return std::nullopt;
}

}  // namespace compilecache::controller
