#include "cli/explain/start_phases_text.hpp"

#include <algorithm>

namespace compilecache::cli {
namespace {

std::string indented_name(const StartPhase& phase) {
  return (phase.within.empty() ? "" : "  ") + phase.name;
}

}  // namespace

std::string milliseconds_text(int64_t milliseconds, bool to_the_second) {
  if (to_the_second) return std::to_string(milliseconds / 1000) + " s";
  return std::to_string(milliseconds) + " ms";
}

std::string tokens_text(int64_t tokens) {
  std::string text = std::to_string(tokens);
  constexpr size_t kGroup = 3;
  for (size_t end = text.size(); end > kGroup; end -= kGroup) text.insert(end - kGroup, ",");
  return text + " tokens";
}

void tell_phases(const std::vector<StartPhase>& phases, Page& page) {
  constexpr size_t kTime = 10;
  size_t width = 10;
  for (const StartPhase& phase : phases) width = std::max(width, indented_name(phase).size());
  for (const StartPhase& phase : phases) {
    std::string time = milliseconds_text(phase.milliseconds, phase.to_the_second);
    time.insert(0, kTime - std::min(kTime, time.size()), ' ');
    page.row(padded(indented_name(phase), width) + time + "  " + phase.note);
  }
}

}  // namespace compilecache::cli
