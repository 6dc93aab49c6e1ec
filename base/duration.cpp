#include "base/duration.hpp"

#include <charconv>
#include <cmath>

namespace compilecache {
namespace {

// Milliseconds in one unit, or 0 for a unit we do not know.
double unit_milliseconds(std::string_view unit) {
  if (unit == "ms") return 1;
  if (unit == "s") return 1000;
  if (unit == "m") return 60 * 1000;
  if (unit == "h") return 3600 * 1000;
  return 0;
}

tl::unexpected<Error> refuse(std::string_view text) {
  return fail(ErrorCode::kInvalid, "reading the duration \"" + std::string(text) +
                                       "\": write it like 30s, 15m, 1h30m or 250ms");
}

}  // namespace

Result<std::chrono::milliseconds> parse_duration(std::string_view text) {
  constexpr double kLongest = 1000.0 * 3600 * 24 * 365 * 100;
  if (text == "0") return std::chrono::milliseconds(0);
  if (text.empty()) return refuse(text);
  double total = 0;
  for (std::string_view rest = text; !rest.empty();) {
    const size_t digits = rest.find_first_not_of("0123456789.");
    if (digits == 0 || digits == std::string_view::npos) return refuse(text);
    double number = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + digits, number);
    if (error != std::errc() || end != rest.data() + digits) return refuse(text);
    rest.remove_prefix(digits);
    const size_t letters = rest.find_first_of("0123456789.");
    const double unit = unit_milliseconds(rest.substr(0, letters));
    if (unit == 0) return refuse(text);
    total += number * unit;
    rest.remove_prefix(letters == std::string_view::npos ? rest.size() : letters);
  }
  if (total > kLongest) return refuse(text);
  return std::chrono::milliseconds(std::llround(total));
}

std::string format_duration(std::chrono::milliseconds duration) {
  const long long total = duration.count();
  if (total == 0) return "0s";
  std::string text;
  if (const long long hours = total / 3600000; hours > 0) text += std::to_string(hours) + "h";
  if (const long long minutes = total / 60000 % 60; minutes > 0) {
    text += std::to_string(minutes) + "m";
  }
  if (const long long seconds = total / 1000 % 60; seconds > 0) {
    text += std::to_string(seconds) + "s";
  }
  if (const long long milliseconds = total % 1000; milliseconds > 0) {
    text += std::to_string(milliseconds) + "ms";
  }
  return text;
}

}  // namespace compilecache
