#include "api/summary.hpp"

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <utility>

namespace compilecache::api {
namespace {

std::string in_words(std::initializer_list<std::pair<int64_t, std::string_view>> counters) {
  std::string text;
  for (const auto& [count, word] : counters) {
    if (count == 0) continue;
    if (!text.empty()) text += ", ";
    text += std::to_string(count) + " ";
    text += word;
  }
  return text;
}

// Rounded; 100 only for all, 0 only for none.
int64_t percent(int64_t part, int64_t all) {
  if (part <= 0) return 0;
  if (part >= all) return 100;
  return std::clamp<int64_t>((200 * part + all) / (2 * all), 1, 99);
}

}  // namespace

std::string summary(const LoadCounters& loads) {
  return in_words({{loads.exact, "exact"},
                   {loads.compatible, "compatible"},
                   {loads.missing, "missing"},
                   {loads.failed, "failed"}});
}

std::string summary(const EffectCounters& effect) {
  return in_words({{effect.full, "full"},
                   {effect.partial, "partial"},
                   {effect.none, "none"},
                   {effect.unused, "unused"},
                   {effect.unknown, "unknown"}});
}

std::string summary(const SaveCounters& saves) {
  return in_words(
      {{saves.committed, "committed"}, {saves.refused, "refused"}, {saves.failed, "failed"}});
}

std::string hit_rate(const LoadCounters& loads) {
  const int64_t hits = loads.exact + loads.compatible;
  const int64_t all = hits + loads.missing + loads.failed;
  return all == 0 ? "" : std::to_string(percent(hits, all)) + "%";
}

std::string main_effect(const EffectCounters& effect) {
  const std::pair<int64_t, const char*> counters[] = {{effect.full, "full"},
                                                      {effect.partial, "partial"},
                                                      {effect.none, "none"},
                                                      {effect.unused, "unused"},
                                                      {effect.unknown, "unknown"}};
  int64_t all = 0;
  const auto* most = &counters[0];
  for (const auto& counter : counters) {
    all += counter.first;
    if (counter.first > most->first) most = &counter;
  }
  if (all == 0) return "";
  if (most->first == all) return most->second;
  return std::to_string(percent(most->first, all)) + "% " + most->second;
}

std::string time_saved(int64_t seconds) {
  if (seconds < 1) return "";
  const int64_t minutes = seconds / 60, hours = minutes / 60, days = hours / 24;
  if (minutes == 0) return std::to_string(seconds) + "s";
  if (hours == 0) return std::to_string(minutes) + "m";
  if (days == 0) return std::to_string(hours) + "h" + std::to_string(minutes % 60) + "m";
  return std::to_string(days) + "d" + std::to_string(hours % 24) + "h";
}

}  // namespace compilecache::api
