#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/quantity.hpp"
#include "base/strings.hpp"
#include "cli/explain/pod_story.hpp"
#include "cli/explain/start_phases_text.hpp"
#include "cli/text/page.hpp"

// A pod's story for people, in a screen of 100 columns, and for scripts.

namespace compilecache::cli {
namespace {

using nlohmann::json;

std::string seconds_text(double seconds) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f s", seconds);
  return text.data();
}

void tell_key(const PodStory& story, Page& page) {
  if (story.key.empty())
    return page.line("key", "not known: the node or its labels cannot be read");
  page.line("key", story.key_archive.empty() ? "" : "archive " + story.key_archive);
  size_t name = 0, value = 0;
  for (const KeyPart& part : story.key) {
    name = std::max(name, part.name.size());
    value = std::max(value, std::min<size_t>(part.value.size(), 40));
  }
  for (const KeyPart& part : story.key) {
    page.row(padded(part.name, name) + "  " + padded(part.value, value) + "  " + part.from);
  }
}

void tell_start(const StartTimes& start, Page& page) {
  if (!start.phases.empty()) {
    page.line("steps", start.milliseconds ? milliseconds_text(*start.milliseconds, true) +
                                                " from its creation until it was ready"
                                          : "");
  }
  tell_phases(start.phases, page);
  if (start.kv_cache_tokens) page.line("KV cache", tokens_text(*start.kv_cache_tokens));
  for (const std::string& what : start.untold) page.line("untold", what);
}

void tell_archive(const PodStory& story, Page& page) {
  std::string found = story.load.empty() ? "not known: " : story.load + ": ";
  if (!story.archive.empty()) {
    found += story.archive + ", generation " + std::to_string(story.generation) + ", " +
             format_bytes(static_cast<uint64_t>(std::max<int64_t>(0, story.bytes))) + "; ";
  }
  if (!story.load_reason.empty()) found += story.load_reason + ": ";
  page.line("archive", found + story.load_why);
  if (!story.nearest.empty()) {
    page.line("", story.nearest_differs.empty()
                      ? "there is one for this key now: " + story.nearest
                      : "the nearest is " + story.nearest + ", with another " +
                            join(story.nearest_differs, "; "));
  }
}

void tell_effect(const PodStory& story, Page& page) {
  if (story.effect.empty()) {
    page.line("effect", story.load.empty()      ? "not known"
                        : story.archive.empty() ? "none to judge: nothing was loaded"
                                                : "not known yet: the saver has not reported");
  } else {
    std::string text = story.effect + ": " + story.effect_why + " (" +
                       std::to_string(story.loaded_entries) + " entries loaded, " +
                       std::to_string(story.read_entries) + " read)";
    if (story.seconds_saved > 0) text += "; saved about " + seconds_text(story.seconds_saved);
    page.line("effect", text);
  }
  if (story.new_entries == 0) {
    if (story.effect == "partial" && story.compile_seconds > 0) {
      page.line("compiled", "no new entries, but what belongs to loaded ones, in " +
                                seconds_text(story.compile_seconds));
    }
    return;
  }
  std::string anew = std::to_string(story.new_entries) + " entries";
  if (story.compile_seconds > 0) anew += " in " + seconds_text(story.compile_seconds);
  if (!story.compiled.empty()) anew += ", the first: " + join(story.compiled, " ");
  page.line("compiled", anew);
  if (!story.differing.empty()) {
    page.line("differs",
              join(story.differing, ", ") + " (in the framework's own key; values are not shown)");
  }
}

json list_of(const std::vector<std::string>& texts) { return texts; }

json optional_json(const std::optional<int64_t>& number) { return number ? json(*number) : json(); }

}  // namespace

std::string text_of(const PodStory& story) {
  Page page;
  page.line("pod", story.ns + "/" + story.pod +
                       (story.node.empty() ? ", on no node yet" : " on node " + story.node) +
                       (story.phase.empty() ? "" : ", " + story.phase));
  page.line("injected", story.injected
                            ? "yes, by version " + story.version + ": mode " + story.mode +
                                  "; frameworks " + join(story.frameworks, ", ") + "; containers " +
                                  join(story.containers, ", ")
                            : "no, " + story.injection + ": " + story.injection_why);
  if (!story.cache.empty()) page.line("cache", "CompileCache " + story.ns + "/" + story.cache);
  if (story.injected) {
    tell_key(story, page);
    tell_archive(story, page);
    tell_start(story.start, page);
    tell_effect(story, page);
    if (!story.save.empty()) {
      page.line("saved", story.save + (story.save_reason.empty() ? "" : ", " + story.save_reason) +
                             (story.save_why.empty() ? "" : ": " + story.save_why));
    }
  } else {
    tell_start(story.start, page);
  }
  if (story.change.empty()) page.line("change", "nothing");
  for (const std::string& what : story.change) page.line("change", what);
  if (!story.start_kit.empty()) {
    page.line("start kit", "off; spec.startKit: true would set " + join(story.start_kit, "; "));
  }
  for (const ToldEvent& event : story.events) {
    page.line("event", event.time + " " + event.about + " " + event.reason + ": " + event.message);
  }
  for (const std::string& what : story.unread) page.line("unread", what);
  return page.take();
}

json json_of(const PodStory& story) {
  json key = json::array();
  for (const KeyPart& part : story.key) {
    key.push_back({{"name", part.name}, {"value", part.value}, {"from", part.from}});
  }
  json steps = json::array();
  for (const StartPhase& step : story.start.phases) {
    steps.push_back({{"name", step.name},
                     {"milliseconds", step.milliseconds},
                     {"toTheSecond", step.to_the_second},
                     {"within", step.within},
                     {"note", step.note}});
  }
  json events = json::array();
  for (const ToldEvent& event : story.events) {
    events.push_back({{"time", event.time},
                      {"about", event.about},
                      {"reason", event.reason},
                      {"message", event.message}});
  }
  return {
      {"namespace", story.ns},
      {"pod", story.pod},
      {"node", story.node},
      {"phase", story.phase},
      {"cache", story.cache},
      {"injection",
       {{"injected", story.injected},
        {"reason", story.injection},
        {"why", story.injection_why},
        {"mode", story.mode},
        {"version", story.version},
        {"frameworks", list_of(story.frameworks)},
        {"containers", list_of(story.containers)}}},
      {"key", key},
      {"keyArchive", story.key_archive},
      {"load",
       {{"outcome", story.load},
        {"reason", story.load_reason},
        {"why", story.load_why},
        {"archive", story.archive},
        {"generation", story.generation},
        {"bytes", story.bytes},
        {"nearest", story.nearest},
        {"nearestDiffers", list_of(story.nearest_differs)}}},
      {"created", story.created},
      {"startMilliseconds", optional_json(story.start.milliseconds)},
      {"kvCacheTokens", optional_json(story.start.kv_cache_tokens)},
      {"steps", steps},
      {"untold", list_of(story.start.untold)},
      {"effect",
       {{"effect", story.effect},
        {"why", story.effect_why},
        {"loadedEntries", story.loaded_entries},
        {"readEntries", story.read_entries},
        {"newEntries", story.new_entries},
        {"compiled", list_of(story.compiled)},
        {"differing", list_of(story.differing)},
        {"compileSeconds", story.compile_seconds},
        {"secondsSaved", story.seconds_saved}}},
      {"save", {{"outcome", story.save}, {"reason", story.save_reason}, {"why", story.save_why}}},
      {"change", list_of(story.change)},
      {"startKit", list_of(story.start_kit)},
      {"events", events},
      {"unread", list_of(story.unread)}};
}

}  // namespace compilecache::cli
