#include "base/time_format.hpp"

#include <array>
#include <cmath>
#include <cstdio>
#include <ctime>

namespace compilecache {
namespace {

// All of these fit the clock's 64 bits of nanoseconds.
constexpr int kFirstYear = 1678;
constexpr int kLastYear = 2261;

std::tm utc(WallTime time) {
  const std::time_t seconds =
      std::chrono::floor<std::chrono::seconds>(time).time_since_epoch().count();
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  return parts;
}

std::string format_with(WallTime time, const std::string& suffix) {
  const std::tm parts = utc(time);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &parts);
  return text.data() + suffix;
}

}  // namespace

std::string format_time(WallTime time) { return format_with(time, "Z"); }

std::string format_micro_time(WallTime time) {
  const auto second = std::chrono::floor<std::chrono::seconds>(time);
  const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(time - second).count();
  std::string digits = std::to_string(micros);
  digits.insert(0, 6 - digits.size(), '0');
  return format_with(time, "." + digits + "Z");
}

Result<WallTime> parse_time(std::string_view text) {
  const auto refuse = [&] {
    return fail(ErrorCode::kInvalid, "reading the time \"" + std::string(text) +
                                         "\": write it like 2006-01-02T15:04:05Z");
  };
  const std::string copy(text);
  std::tm parts{};
  const char* rest = strptime(copy.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  if (rest == nullptr) return refuse();
  if (parts.tm_year + 1900 < kFirstYear || parts.tm_year + 1900 > kLastYear) return refuse();
  WallTime time = std::chrono::system_clock::from_time_t(timegm(&parts));
  if (*rest == '.') {
    char* end = nullptr;
    const double fraction = std::strtod(rest, &end);
    time += std::chrono::microseconds(std::llround(fraction * 1e6));
    rest = end;
  }
  if (std::string_view(rest) == "Z") return time;
  int hours = 0;
  int minutes = 0;
  char sign = 0;
  if (std::sscanf(rest, "%c%2d:%2d", &sign, &hours, &minutes) != 3) return refuse();
  if (sign != '+' && sign != '-') return refuse();
  const auto offset = std::chrono::minutes(hours * 60 + minutes);
  return sign == '+' ? time - offset : time + offset;
}

}  // namespace compilecache
