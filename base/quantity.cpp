#include "base/quantity.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>
#include <utility>

namespace compilecache {
namespace {

constexpr int64_t kMost = INT64_MAX;
__extension__ using Wide = unsigned __int128;

// What stands behind the number: a power of ten or of two.
struct Suffix {
  int64_t power_of_ten = 0;
  int power_of_two = 0;
};

constexpr std::array<std::pair<std::string_view, Suffix>, 16> kSuffixes{{{"", {0, 0}},
                                                                         {"n", {-9, 0}},
                                                                         {"u", {-6, 0}},
                                                                         {"m", {-3, 0}},
                                                                         {"k", {3, 0}},
                                                                         {"M", {6, 0}},
                                                                         {"G", {9, 0}},
                                                                         {"T", {12, 0}},
                                                                         {"P", {15, 0}},
                                                                         {"E", {18, 0}},
                                                                         {"Ki", {0, 10}},
                                                                         {"Mi", {0, 20}},
                                                                         {"Gi", {0, 30}},
                                                                         {"Ti", {0, 40}},
                                                                         {"Pi", {0, 50}},
                                                                         {"Ei", {0, 60}}}};

// "e3", "E+3", "e-3"; "E" alone is a suffix.
std::optional<Suffix> read_suffix(std::string_view text) {
  for (const auto& [name, suffix] : kSuffixes) {
    if (name == text) return suffix;
  }
  if (text.empty() || (text[0] != 'e' && text[0] != 'E')) return std::nullopt;
  text.remove_prefix(1);
  if (text.starts_with('+')) {
    text.remove_prefix(1);
    if (text.starts_with('-')) return std::nullopt;
  }
  Suffix suffix;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, suffix.power_of_ten);
  if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
  // Beyond these every number is zero or larger than all.
  constexpr int64_t kFar = 100'000'000;
  suffix.power_of_ten = std::clamp<int64_t>(suffix.power_of_ten, -kFar, kFar);
  return suffix;
}

// The number is digits * 10^power_of_ten, and a little more where some digits had no room.
struct Number {
  uint64_t digits = 0;
  int64_t power_of_ten = 0;
  bool more = false;
};

// "12", "12.", "1.5", ".5"; as many digits count as 64 bits hold.
std::optional<Number> read_number(std::string_view text) {
  constexpr uint64_t kRoom = UINT64_MAX / 10 - 1;
  Number number;
  bool any = false;
  bool in_fraction = false;
  for (const char c : text) {
    if (c == '.') {
      if (in_fraction) return std::nullopt;
      in_fraction = true;
      continue;
    }
    any = true;
    if (number.digits <= kRoom) {
      number.digits = number.digits * 10 + static_cast<uint64_t>(c - '0');
      if (in_fraction) --number.power_of_ten;
    } else {
      number.more = number.more || c != '0';
      if (!in_fraction) ++number.power_of_ten;
    }
  }
  return any ? std::optional(number) : std::nullopt;
}

// Rounded up; what is larger than kMost is kMost.
int64_t value_of(const Number& number, const Suffix& suffix) {
  if (number.digits == 0) return 0;
  auto value = static_cast<Wide>(number.digits) << suffix.power_of_two;
  bool more = number.more;
  int64_t power = number.power_of_ten + suffix.power_of_ten;
  for (; power > 0 && value <= kMost; --power) value *= 10;
  for (; power < 0 && value > 0; ++power) {
    more = more || value % 10 != 0;
    value /= 10;
  }
  if (value >= kMost) return kMost;
  return static_cast<int64_t>(value) + (more ? 1 : 0);
}

tl::unexpected<Error> refused(std::string_view text, const char* why) {
  return fail(ErrorCode::kInvalid,
              "reading the quantity \"" + std::string(text) + "\": " + std::string(why));
}

// In units of 10^-shift.
Result<int64_t> parse(std::string_view text, int shift) {
  const char* const how = "write it like 50Gi, 500M, 2 or 100m";
  const bool is_negative = text.starts_with('-');
  const std::string_view rest = is_negative || text.starts_with('+') ? text.substr(1) : text;
  const size_t digits = std::min(rest.find_first_not_of("0123456789."), rest.size());
  const auto number = read_number(rest.substr(0, digits));
  auto suffix = read_suffix(rest.substr(digits));
  if (!number || !suffix) return refused(text, how);
  if (is_negative && number->digits > 0) return refused(text, "it is negative");
  suffix->power_of_ten += shift;
  return value_of(*number, *suffix);
}

}  // namespace

Result<int64_t> parse_quantity_milli(std::string_view text) { return parse(text, 3); }

Result<Quantity> parse_quantity(std::string_view text) {
  const auto milli = parse_quantity_milli(text);
  if (!milli) return unexpected(milli.error());
  if (*milli == kMost) return refused(text, "it is too large; at most 8Pi can be meant");
  return Quantity{*milli};
}

std::string format_quantity(Quantity quantity) {
  constexpr int64_t kMebibyte = int64_t{1024} * 1024 * 1000;
  const int64_t milli = quantity.milli;
  if (milli > 0 && milli % kMebibyte == 0) return std::to_string(milli / kMebibyte) + "Mi";
  if (milli % 1000 == 0) return std::to_string(milli / 1000);
  return std::to_string(milli) + "m";
}

Result<uint64_t> parse_bytes(std::string_view text) {
  const auto units = parse(text, 0);
  if (!units) return unexpected(units.error());
  if (*units == kMost) return refused(text, "it is too large; less than 8Ei can be meant");
  return static_cast<uint64_t>(*units);
}

std::string format_bytes(uint64_t bytes) {
  constexpr std::array<const char*, 6> kUnits{"", "Ki", "Mi", "Gi", "Ti", "Pi"};
  double value = static_cast<double>(bytes);
  size_t step = 0;
  while (value >= 1024 && step + 1 < kUnits.size()) {
    value /= 1024;
    ++step;
  }
  std::array<char, 32> text{};
  const bool whole = value >= 100 || value == std::floor(value);
  std::snprintf(text.data(), text.size(), whole ? "%.0f%s" : "%.1f%s", value, kUnits[step]);
  return text.data();
}

}  // namespace compilecache
