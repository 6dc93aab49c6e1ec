#include "cli/explain/autotune_lines.hpp"

#include <chrono>
#include <optional>

#include "base/time_format.hpp"
#include "cli/explain/log_process.hpp"

namespace compilecache::cli {
namespace {

constexpr std::string_view kBegins = "[Autotuner]: Autotuning process starts";
constexpr std::string_view kEnds = "[Autotuner]: Autotuning process ends";
constexpr std::string_view kAfterTime = " - INFO - ", kTime = "2026-05-01 19:58:31,314";

struct Moment {
  WallTime time;
  std::string process;
};

// The time of the line with `words`; nothing where it has no time.
std::optional<Moment> moment_of(std::string_view line, std::string_view words) {
  const size_t at = line.find(words);
  if (at == std::string_view::npos) return std::nullopt;
  const size_t end = line.rfind(kAfterTime, at);
  if (end == std::string_view::npos || end < kTime.size()) return std::nullopt;
  const size_t begin = end - kTime.size();
  std::string time(line.substr(begin, kTime.size()));
  time[kTime.find(' ')] = 'T';
  time[kTime.find(',')] = '.';
  const auto parsed = parse_time(time + "Z");
  if (!parsed) return std::nullopt;
  return Moment{*parsed, std::string(process_of(line.substr(0, begin)))};
}

}  // namespace

std::map<std::string, double, std::less<>> autotune_seconds(
    const std::vector<std::string_view>& log) {
  std::map<std::string, WallTime> begun;
  std::map<std::string, double, std::less<>> seconds;
  for (const std::string_view line : log) {
    if (const auto begins = moment_of(line, kBegins)) begun[begins->process] = begins->time;
    const auto ends = moment_of(line, kEnds);
    if (!ends) continue;
    const auto began = begun.find(ends->process);
    if (began == begun.end() || began->second > ends->time) continue;
    seconds[ends->process] += std::chrono::duration<double>(ends->time - began->second).count();
    begun.erase(began);
  }
  return seconds;
}

}  // namespace compilecache::cli
