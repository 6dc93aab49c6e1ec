#include "api/summary.hpp"
#include "cli/archives/counters_json.hpp"
#include "cli/status/cache_overview.hpp"
#include "cli/text/page.hpp"

// How a CompileCache does, for people and for scripts.

namespace compilecache::cli {
namespace {

using nlohmann::json;

void tell_archives(const CacheOverview& overview, WallTime now, Page& page) {
  if (!overview.unread.empty()) return page.line("archives", "not known: " + overview.unread);
  if (overview.archives.empty()) return page.line("archives", "none yet");
  page.line("archives", std::to_string(overview.archives.size()) + ", " +
                            size_text(overview.bytes) + " in the store");
  std::vector<std::vector<std::string>> rows{
      {"NAME", "GPU PRODUCT", "GENERATION", "SIZE", "FILES", "LOADS", "LAST USED", "STATE"}};
  for (const ArchiveRow& archive : overview.archives) {
    rows.push_back({archive.name, or_dash(archive.gpu_product), std::to_string(archive.generation),
                    size_text(archive.bytes), std::to_string(archive.files), or_dash(archive.loads),
                    age_text(archive.last_used, now), archive.state});
  }
  page.table(rows);
}

void tell_pods(const CacheOverview& overview, WallTime now, Page& page) {
  std::string text = std::to_string(overview.active_pods) + " now";
  if (const auto percent = hit_percent(overview.loads)) {
    text += "; starts so far: " + api::summary(overview.loads) + " (" + std::to_string(*percent) +
            " % with an archive)";
  }
  const std::string effect = api::summary(overview.effect);
  if (!effect.empty()) text += "; effect: " + effect;
  page.line("pods", text);
  if (overview.seconds_saved > 0) {
    page.line("saved", "about " + std::to_string(overview.seconds_saved) + " s of compiling");
  }
  const std::string saves = api::summary(overview.saves);
  if (!saves.empty()) {
    page.line("saves", saves + (overview.last_save.empty()
                                    ? ""
                                    : "; last " + age_text(overview.last_save, now) + " ago"));
  }
}

void tell_cold(const CacheOverview& overview, Page& page) {
  for (const ColdPods& cold : overview.cold) {
    page.line("cold", std::to_string(cold.pods) + " of the last " +
                          std::to_string(overview.recent_pods) + " pods, " + cold.reason +
                          (cold.why.empty() ? "" : ": " + cold.why) +
                          (cold.change.empty() ? "" : "; " + cold.change) +
                          "; kubectl compilecache explain " + cold.pod + " -n " + overview.ns);
  }
}

}  // namespace

std::string text_of(const CacheOverview& overview, WallTime now) {
  Page page;
  const std::string ready = overview.ready == "True"    ? "ready"
                            : overview.ready == "False" ? "not ready"
                                                        : "not known whether ready";
  page.line("cache", overview.ns + "/" + overview.name + ", " + ready +
                         (overview.store.empty() ? "" : ", " + overview.store));
  tell_archives(overview, now, page);
  tell_pods(overview, now, page);
  for (const WrongCondition& wrong : overview.wrong) {
    page.line("wrong", wrong.type + ", " + wrong.reason +
                           (wrong.message.empty() ? "" : ": " + wrong.message));
  }
  tell_cold(overview, page);
  return page.take();
}

json json_of(const CacheOverview& overview) {
  json archives = json::array(), wrong = json::array(), cold = json::array();
  for (const ArchiveRow& archive : overview.archives) {
    archives.push_back({{"name", archive.name},
                        {"gpuProduct", archive.gpu_product},
                        {"generation", archive.generation},
                        {"bytes", archive.bytes},
                        {"files", archive.files},
                        {"loads", archive.loads},
                        {"lastUsed", archive.last_used},
                        {"state", archive.state}});
  }
  for (const WrongCondition& one : overview.wrong) {
    wrong.push_back({{"type", one.type}, {"reason", one.reason}, {"message", one.message}});
  }
  for (const ColdPods& one : overview.cold) {
    cold.push_back({{"pods", one.pods},
                    {"reason", one.reason},
                    {"why", one.why},
                    {"change", one.change},
                    {"pod", one.pod}});
  }
  const auto& [committed, unchanged, refused, save_failed] = overview.saves;
  return {{"namespace", overview.ns},
          {"name", overview.name},
          {"store", overview.store},
          {"ready", overview.ready},
          {"archives", archives},
          {"bytes", overview.bytes},
          {"activePods", overview.active_pods},
          {"secondsSaved", overview.seconds_saved},
          {"loads", json_of(overview.loads)},
          {"effect", json_of(overview.effect)},
          {"saves",
           {{"committed", committed},
            {"unchanged", unchanged},
            {"refused", refused},
            {"failed", save_failed}}},
          {"lastSave", overview.last_save},
          {"wrong", wrong},
          {"recentPods", overview.recent_pods},
          {"cold", cold},
          {"unread", overview.unread}};
}

}  // namespace compilecache::cli
