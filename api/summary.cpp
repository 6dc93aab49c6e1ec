#include "api/summary.hpp"

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

}  // namespace compilecache::api
