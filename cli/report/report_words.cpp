#include "cli/report/report_words.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "base/time_format.hpp"

namespace compilecache::cli {
namespace {

std::string with_a_decimal(double value) {
  std::array<char, 400> digits{};  // the largest double has 309 before the point
  std::snprintf(digits.data(), digits.size(), "%.1f", value);
  return digits.data();
}

}  // namespace

std::string time_text(int64_t seconds) {
  if (seconds < 120) return std::to_string(seconds) + " s";
  const int64_t minutes = seconds / 60, hours = minutes / 60;
  if (minutes < 120) return std::to_string(minutes) + " min";
  if (hours >= 100 || minutes % 60 == 0) return std::to_string(hours) + " h";
  return std::to_string(hours) + " h " + std::to_string(minutes % 60) + " min";
}

std::string start_text(double seconds) {
  constexpr double kMostSeconds = 600, kLongest = 1e12;
  if (seconds < 9.95) return with_a_decimal(seconds) + " s";
  const int64_t whole = std::llround(std::min(seconds, kLongest));
  return seconds < kMostSeconds ? std::to_string(whole) + " s" : time_text(whole);
}

std::string hours_text(double hours) { return with_a_decimal(hours); }

std::string percent_text(const api::LoadCounters& loads) {
  const auto percent = hit_percent(loads);
  return percent ? std::to_string(*percent) + " %" : "-";
}

std::string day_text(WallTime time) { return format_time(time).substr(0, 10); }

std::string scope_text(const Report& report) {
  return report.ns.empty() ? "all namespaces" : "namespace " + report.ns;
}

std::string counted_text(int64_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

}  // namespace compilecache::cli
