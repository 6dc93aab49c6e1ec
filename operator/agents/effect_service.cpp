#include "operator/agents/effect_service.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "api/registry_trouble.hpp"
#include "base/log.hpp"
#include "base/printable.hpp"
#include "base/strings.hpp"
#include "base/time_format.hpp"
#include "operator/agents/agent_words.hpp"
#include "operator/agents/save_contexts.hpp"

namespace compilecache::controller {
namespace {

constexpr size_t kImageLength = 512;
constexpr size_t kMostRankDirectories = 64;  // as agents report at most
constexpr size_t kRankDirectoryLength = 256;
// In seconds; what an agent says is not to be believed blindly.
constexpr double kLongestCompile = 1e7;

// Of a pod, in the ledger: what it said of its last save when that was counted, and of which user
// it said that files are his.
struct SavingPod {
  std::string said;
  std::optional<int64_t> owner = {};
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
  const api::RegistryRef* registry = caller.store ? caller.store->registry() : nullptr;
  const bool is_full = reason == api::to_string(api::RegistryTrouble::kFull);
  if (is_full && registry != nullptr && registry->own && parts_.registry_room) {
    parts_.registry_room(true);
  }
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
    parts_.traffic.gives_up(flight_of(parts_.pods, caller, *key), caller.pod->uid);
  }
  warn("CacheSaveRefused");
}

// The savers of later pods of the image get that user, where such a pod may have it
// (webhook/security_context.hpp).
void EffectService::learn_owner(const Caller& caller, const api::EffectReport& report) {
  const std::string& image = caller.pod->injection->key_basis.image;
  const int64_t user = report.unreadable_owner;
  if (report.unreadable_files <= 0 || !api::is_user(user) || image.empty()) return;
  if (image.size() > kImageLength || printable(image) != image) return;
  if (!is_believable(caller, image, user)) return;
  const std::string now = format_time(parts_.clock.wall());
  if (!parts_.stats.note_owner(caller.key(), image, user, now)) return;
  record_event(
      parts_.events, caller, kube::EventType::kWarning, "CacheFilesUnreadable",
      std::to_string(report.unreadable_files) + " files of image " + image +
          " are not saved, as only user " + std::to_string(user) +
          " may read them; later pods' savers run as that user, where pod and containers name "
          "none (or set spec.save.runAsUser)");
}

// Any pod can send such a report, and the savers of others get the user. So it has to come from one
// that may save, and whose containers can be that user's. Each pod is looked up once.
bool EffectService::is_believable(const Caller& caller, const std::string& image,
                                  int64_t user) const {
  if (!may_not_save(caller).empty() || !parts_.can_own_files) return false;
  const auto& known = caller.cache->status.file_owners;
  if (std::any_of(known.begin(), known.end(), [&](const api::FileOwner& owner) {
        return owner.image == image && owner.user == user;
      })) {
    return false;
  }
  const bool is_news = parts_.pods.edit<SavingPod>(
      caller.pod->uid, [&](SavingPod& pod) { return std::exchange(pod.owner, user) != user; });
  if (!is_news) return false;
  const auto can = parts_.can_own_files(*caller.pod, user);
  if (can && *can) return true;
  log_warn("a user of unreadable files is not believed",
           {{"reason", can ? "not_the_pods_user" : to_string(can.error().code)},
            {"namespace", caller.ns()},
            {"pod", caller.pod->name},
            {"user", std::to_string(user)}});
  if (!can) {
    parts_.pods.edit<SavingPod>(caller.pod->uid, [](SavingPod& pod) { pod.owner.reset(); });
  }
  return false;
}

void EffectService::note_compiling(const Caller& caller, const api::EffectReport& report) {
  if (report.compiling) {
    if (const auto key = key_of(parts_.view, caller)) {
      parts_.traffic.compiling(flight_of(parts_.pods, caller, *key), caller.pod->uid);
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

// For the archives of its own key, of which its next pod loads one.
void EffectService::note_ranks(const Caller& caller, const api::EffectReport& report) {
  const std::string& member = caller.pod->group.member;
  auto directories = report.rank_directories;
  std::erase_if(directories, [](const std::string& directory) {
    return directory.size() > kRankDirectoryLength;
  });
  if (member.empty() || directories.empty() || directories.size() > kMostRankDirectories) return;
  const auto key = key_of(parts_.view, caller);
  if (!key) return;
  for (const auto& archive : parts_.view.archives_of(caller.ns(), caller.cache->metadata.name)) {
    if (!api::is_same_but_cpu(archive->key, *key)) continue;
    parts_.registry.ranks(caller.ns(), archive->metadata.name, member, caller.pod->uid,
                          directories);
  }
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

// The share of the loaded entries that the app has read. Compilations without a new entry it
// compiled although it was loaded; where it read no entries, but what lies beside them, that is all
// that is known.
double EffectService::seconds_saved(const Caller& caller, const api::EffectReport& report) const {
  if (report.effect != api::Effect::kFull && report.effect != api::Effect::kPartial) return 0;
  const auto worth = worth_of(caller);
  // A previous leader's counts stay where its facts are no longer available.
  if (!worth) return parts_.stats.seconds_of(caller.key(), caller.pod->uid);
  const double spared = std::max(0.0, *worth - std::max(0.0, report.compile_seconds));
  if (report.loaded_entries <= 0 || report.read_entries <= 0) return spared;
  const double share =
      static_cast<double>(report.read_entries) / static_cast<double>(report.loaded_entries);
  const double read = *worth * std::clamp(share, 0.0, 1.0);
  return report.new_entries > 0 ? read : std::min(spared, read);
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
