#include "cli/status/cache_overview.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "api/outcomes.hpp"
#include "api/summary.hpp"
#include "cli/archives/archive_table.hpp"
#include "cli/text/outcome_reasons.hpp"

namespace compilecache::cli {
namespace {

ArchiveRow row_of(const api::CompileCacheArchive& archive,
                  const std::vector<std::string>& allowed_accounts) {
  ArchiveRow row{.name = archive.metadata.name,
                 .generation = archive.head.generation,
                 .bytes = archive.head.compressed_bytes,
                 .files = archive.head.files,
                 .loads = api::summary(archive.loads),
                 .last_used = archive.last_used_time,
                 .saved_at = archive.head.saved_at,
                 .warm_loads = archive.loads.exact + archive.loads.compatible,
                 .compile_seconds = archive.head.compile_seconds};
  const auto part = [&](const char* name) {
    const auto found = archive.key.find(name);
    return found == archive.key.end() ? std::string() : found->second;
  };
  row.gpu_product = part(api::kGpuProductPart);
  row.gpus = part(api::kGpuCountPart);
  row.state = state_of(archive);
  if (row.state.empty() && !api::saved_by_allowed(archive.head, allowed_accounts)) {
    row.state = "saver not allowed";
  }
  return row;
}

// Whether one of `told` has said it: Ready and Stalled have the reason, or the type, of another.
bool is_told(const api::Condition& condition, const std::vector<WrongCondition>& told) {
  return std::any_of(told.begin(), told.end(), [&](const WrongCondition& one) {
    return one.reason == condition.reason || one.type == condition.reason;
  });
}

// Ready and Stalled are shown if no other condition gives their reason.
std::vector<WrongCondition> wrong_of(const std::vector<api::Condition>& conditions) {
  struct Bad {
    const char* type;
    const char* status;
  };
  std::vector<WrongCondition> wrong;
  const auto look = [&](const Bad& bad) {
    const api::Condition* is = api::find_condition(conditions, bad.type);
    if (is != nullptr && is->status == bad.status && !is_told(*is, wrong)) {
      wrong.push_back({is->type, is->reason, is->message});
    }
  };
  for (const Bad& bad :
       {Bad{api::kStorageReadyCondition, "False"}, Bad{api::kInjectionPausedCondition, "True"},
        Bad{api::kPodsUnheardCondition, "True"}, Bad{api::kArchivesCopiedCondition, "False"},
        Bad{api::kSaversAllowedCondition, "False"}}) {
    look(bad);
  }
  look({api::kReadyCondition, "False"});
  look({api::kStalledCondition, "True"});
  if (api::find_condition(conditions, api::kReadyCondition) == nullptr) {
    wrong.push_back({api::kReadyCondition, "NotSeen",
                     "the operator has said nothing of this CompileCache yet; see that it runs: "
                     "kubectl get pods -n compilecache-system"});
  }
  return wrong;
}

constexpr char kNoEffect[] = "none";

// Empty where there is nothing to say about the pod.
std::string cold_reason(const api::RecentPod& pod) {
  const auto load = api::parse_word<api::LoadOutcome>(pod.load);
  if (!load) return "";
  if (!api::is_warm(*load)) return pod.reason.empty() ? pod.load : pod.reason;
  return api::parse_word<api::Effect>(pod.effect) == api::Effect::kNone ? kNoEffect : "";
}

std::vector<ColdPods> cold_of(const std::vector<api::RecentPod>& recent) {
  std::map<std::string, std::pair<ColdPods, std::string>> found;  // with the latest pod's time
  for (const api::RecentPod& pod : recent) {
    const std::string reason = cold_reason(pod);
    if (reason.empty()) continue;
    auto& [cold, latest] = found[reason];
    ++cold.pods;
    cold.reason = reason;
    if (pod.time >= latest) {
      latest = pod.time;
      cold.pod = pod.pod;
    }
  }
  std::vector<ColdPods> all;
  for (auto& [reason, entry] : found) {
    ColdPods& cold = entry.first;
    if (const OutcomeReason* known = find_load_reason(reason)) {
      cold.why = known->why;
      cold.change = known->change;
    } else if (reason == kNoEffect) {
      cold.why = "nothing of what they loaded was used";
      cold.change = "see which setting or version is another one for them";
    }
    all.push_back(std::move(cold));
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const ColdPods& a, const ColdPods& b) { return a.pods > b.pods; });
  return all;
}

// The upper one if two are in the middle; 0 if there are no values.
double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// A cold pod counts if it reported what it compiled, a warm one if its effect is known.
LastStarts starts_of(const std::vector<api::RecentPod>& recent) {
  std::vector<double> cold, warm;
  for (const api::RecentPod& pod : recent) {
    const auto load = api::parse_word<api::LoadOutcome>(pod.load);
    if (!load || pod.milliseconds < 0 || pod.compile_milliseconds < 0) continue;
    const double seconds = static_cast<double>(pod.milliseconds) / 1000 +
                           static_cast<double>(pod.compile_milliseconds) / 1000;
    const auto effect = api::parse_word<api::Effect>(pod.effect);
    const bool used = effect == api::Effect::kFull || effect == api::Effect::kPartial ||
                      effect == api::Effect::kNone;
    if (api::is_warm(*load) && used) warm.push_back(seconds);
    if (!api::is_warm(*load) && pod.compile_milliseconds > 0) cold.push_back(seconds);
  }
  return {static_cast<int64_t>(cold.size()), static_cast<int64_t>(warm.size()), median_of(cold),
          median_of(warm)};
}

}  // namespace

int64_t percent_of(double part, double all) {
  if (part >= all) return 100;
  return part > 0 ? std::clamp<int64_t>(std::llround(100 * part / all), 1, 99) : 0;
}

std::optional<int64_t> hit_percent(const api::LoadCounters& loads) {
  const double warm = static_cast<double>(loads.exact) + static_cast<double>(loads.compatible);
  const double all = warm + static_cast<double>(loads.missing) + static_cast<double>(loads.failed);
  // A status that counts below zero is not to be believed.
  if (!(all > 0) || warm < 0 || warm > all) return std::nullopt;
  return percent_of(warm, all);
}

CacheOverview overview_of(const api::CompileCache& cache,
                          const std::vector<api::CompileCacheArchive>& archives) {
  const api::CompileCacheStatus& status = cache.status;
  const api::Condition* ready = api::find_condition(status.conditions, api::kReadyCondition);
  const std::vector<api::RecentPod> recent = status.recent.list();
  CacheOverview overview{.ns = cache.metadata.ns,
                         .name = cache.metadata.name,
                         .store = status.store,
                         .created = cache.metadata.creation_time,
                         .ready = ready == nullptr ? "Unknown" : ready->status,
                         .bytes = status.total_bytes,
                         .active_pods = status.active_pods,
                         .seconds_saved = status.seconds_saved,
                         .loads = status.loads,
                         .effect = status.effect,
                         .saves = status.saves,
                         .last_save = status.last_save_time,
                         .wrong = wrong_of(status.conditions),
                         .recent_pods = static_cast<int64_t>(recent.size()),
                         .cold = cold_of(recent),
                         .starts = starts_of(recent)};
  for (const api::CompileCacheArchive& archive : archives) {
    if (archive.metadata.ns != overview.ns || archive.cache != overview.name) continue;
    if (archive.head.exists()) {
      overview.archives.push_back(row_of(archive, cache.spec.save.allowed_service_accounts));
    }
  }
  std::sort(overview.archives.begin(), overview.archives.end(),
            [](const ArchiveRow& a, const ArchiveRow& b) {
              return std::tie(a.gpu_product, a.name) < std::tie(b.gpu_product, b.name);
            });
  return overview;
}

}  // namespace compilecache::cli
