#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/strings.hpp"
#include "cli/explain/start_phases_text.hpp"
#include "cli/explain/workload_story.hpp"

// A workload's story for people, in a screen of 100 columns, and for scripts.

namespace compilecache::cli {
namespace {

using nlohmann::json;

struct OutcomeWord {
  StartOutcome outcome;
  const char *word, *text;
};
constexpr std::array kOutcomeWords{
    OutcomeWord{StartOutcome::kWarm, "warm", "warm"},
    OutcomeWord{StartOutcome::kPartial, "partial", "partial"},
    OutcomeWord{StartOutcome::kCold, "cold", "cold"},
    OutcomeWord{StartOutcome::kNotInjected, "not_injected", "not injected"},
    OutcomeWord{StartOutcome::kUnknown, "unknown", "unknown"}};

const OutcomeWord& word_of(StartOutcome outcome) {
  return *std::find_if(kOutcomeWords.begin(), kOutcomeWords.end(),
                       [&](const OutcomeWord& one) { return one.outcome == outcome; });
}

std::string pods_text(int64_t pods) {
  return std::to_string(pods) + (pods == 1 ? " pod" : " pods");
}

// "cold, no_archive"
std::string outcome_text(StartOutcome outcome, const std::string& reason) {
  const std::string text = word_of(outcome).text;
  return reason.empty() || reason == text ? text : text + ", " + reason;
}

void tell_outcomes(const WorkloadStory& story, Page& page) {
  std::vector<std::string> counts;
  for (const OutcomeWord& one : kOutcomeWords) {
    const int64_t pods = story.count(one.outcome);
    if (pods > 0) counts.push_back(std::to_string(pods) + " " + one.text);
  }
  page.line("pods", story.pods == 0 ? "none" : join(counts, ", "));
  for (const PodsAlike& one : story.outcomes) {
    page.line("", std::to_string(one.pods) + " " + outcome_text(one.outcome, one.reason) +
                      (one.why.empty() ? "" : ": " + one.why) +
                      (one.outcome == StartOutcome::kWarm ? "" : "; the newest: " + one.newest));
  }
}

std::string parts_text(const CommonKey& key, const std::vector<std::string>& only) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : key.parts) {
    const bool wanted = only.empty() || std::find(only.begin(), only.end(), name) != only.end();
    if (wanted) parts.push_back(name + " " + value);
  }
  return join(parts, ", ");
}

void tell_keys(const WorkloadStory& story, Page& page) {
  if (story.keys.empty()) return;
  const size_t keys = story.keys.size();
  page.line("key", keys == 1 ? "one for all"
                             : std::to_string(keys) + " keys" +
                                   (story.differing.empty()
                                        ? ""
                                        : ", which differ in " + join(story.differing, ", ")));
  for (const CommonKey& key : story.keys) {
    page.line("", key.parts.empty()
                      ? "not known of " + pods_text(key.pods)
                      : (key.archive.empty() ? "no archive" : key.archive) + ", " +
                            pods_text(key.pods) + ": " + parts_text(key, story.differing));
  }
}

void tell_newest(const WorkloadStory& story, Page& page) {
  if (story.newest.empty()) return;
  page.line("newest", "");
  std::vector<std::vector<std::string>> rows{{"POD", "READY AFTER", "OUTCOME"}};
  for (const PodStart& one : story.newest) {
    rows.push_back({one.pod, one.milliseconds ? milliseconds_text(*one.milliseconds, true) : "-",
                    outcome_text(one.outcome, one.reason)});
  }
  page.table(rows);
}

// An engine that measures its memory while it compiles finds less of it
// (docs/reference/engines.md).
void tell_kv_cache(const WorkloadStory& story, Page& page) {
  std::vector<std::string> told;
  for (const StartOutcome outcome : {StartOutcome::kCold, StartOutcome::kWarm}) {
    const auto one = std::find_if(
        story.newest.begin(), story.newest.end(),
        [&](const PodStart& start) { return start.outcome == outcome && start.kv_cache_tokens; });
    if (one == story.newest.end()) continue;
    told.push_back((outcome == StartOutcome::kCold ? "cold " : "warm ") +
                   tokens_text(*one->kv_cache_tokens) + " (" + one->pod + ")");
  }
  if (!told.empty()) page.line("KV cache", join(told, ", "));
}

void tell_medians(const WorkloadStory& story, Page& page) {
  if (story.phases.empty()) return;
  const auto timed = static_cast<int64_t>(story.newest.size());
  page.line("steps", "medians of the newest " + pods_text(timed) +
                         (story.median ? ": " + milliseconds_text(*story.median, true) +
                                             " from the creation until ready"
                                       : ""));
  std::vector<StartPhase> phases;
  for (const MedianPhase& median : story.phases) {
    phases.push_back(median.phase);
    if (median.pods < timed) phases.back().note += " (" + pods_text(median.pods) + ")";
  }
  tell_phases(phases, page);
  for (const auto& [what, pods] : story.untold) {
    page.line("untold", what + (pods < timed ? " (" + pods_text(pods) + ")" : ""));
  }
}

json json_of(const PodsAlike& pods) {
  return {{"outcome", word_of(pods.outcome).word},
          {"reason", pods.reason},
          {"why", pods.why},
          {"pods", pods.pods},
          {"newest", pods.newest},
          {"change", pods.change}};
}

json json_or_null(const std::optional<int64_t>& number) { return number ? json(*number) : json(); }

}  // namespace

std::string text_of(const WorkloadStory& story) {
  Page page;
  page.line("workload",
            story.ns + "/" + story.workload + ", " + pods_text(story.pods_in_all) +
                (story.pods < story.pods_in_all
                     ? ", of which the newest " + std::to_string(story.pods) + " were looked at"
                     : ""));
  for (const std::string& cache : story.caches) {
    page.line("cache", "CompileCache " + story.ns + "/" + cache);
  }
  tell_outcomes(story, page);
  tell_keys(story, page);
  for (const LoadedArchive& one : story.archives) {
    page.line("archive", one.archive + ", generation " + std::to_string(one.generation) +
                             ": loaded by " + pods_text(one.pods));
  }
  tell_newest(story, page);
  tell_kv_cache(story, page);
  tell_medians(story, page);
  if (story.fault) {
    page.line("fault", outcome_text(story.fault->outcome, story.fault->reason) + ": " +
                           std::to_string(story.fault->pods) + " of " + pods_text(story.pods) +
                           "; kubectl compilecache explain " + story.fault->newest + " -n " +
                           story.ns);
    for (const std::string& what : story.fault->change) page.line("change", what);
  } else {
    page.line("change", "nothing");
  }
  for (const std::string& what : story.unread) page.line("unread", what);
  return page.take();
}

json json_of(const WorkloadStory& story) {
  json pods = {{"all", story.pods_in_all}, {"told", story.pods}};
  for (const OutcomeWord& one : kOutcomeWords) pods[one.word] = story.count(one.outcome);
  json outcomes = json::array(), keys = json::array(), archives = json::array();
  for (const PodsAlike& one : story.outcomes) outcomes.push_back(json_of(one));
  for (const CommonKey& key : story.keys) {
    keys.push_back({{"archive", key.archive}, {"pods", key.pods}, {"parts", key.parts}});
  }
  for (const LoadedArchive& one : story.archives) {
    archives.push_back(
        {{"archive", one.archive}, {"generation", one.generation}, {"pods", one.pods}});
  }
  json newest = json::array(), steps = json::array(), untold = json::array();
  for (const PodStart& one : story.newest) {
    newest.push_back({{"pod", one.pod},
                      {"created", one.created},
                      {"startMilliseconds", json_or_null(one.milliseconds)},
                      {"outcome", word_of(one.outcome).word},
                      {"reason", one.reason},
                      {"kvCacheTokens", json_or_null(one.kv_cache_tokens)}});
  }
  for (const auto& [phase, of] : story.phases) {
    steps.push_back({{"name", phase.name},
                     {"milliseconds", phase.milliseconds},
                     {"toTheSecond", phase.to_the_second},
                     {"within", phase.within},
                     {"note", phase.note},
                     {"pods", of}});
  }
  for (const auto& [what, of] : story.untold) untold.push_back({{"what", what}, {"pods", of}});
  return {{"namespace", story.ns},
          {"workload", story.workload},
          {"caches", story.caches},
          {"pods", pods},
          {"outcomes", outcomes},
          {"keys", keys},
          {"differing", story.differing},
          {"archives", archives},
          {"newest", newest},
          {"medianStartMilliseconds", json_or_null(story.median)},
          {"steps", steps},
          {"untold", untold},
          {"fault", story.fault ? json_of(*story.fault) : json()},
          {"change", story.fault ? story.fault->change : std::vector<std::string>()},
          {"unread", story.unread}};
}

}  // namespace compilecache::cli
