#include "base/quantity.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <utility>

namespace compilecache {
namespace {

constexpr std::array<std::pair<std::string_view, double>, 14> kUnits{{{"", 1e3},
                                                                      {"m", 1},
                                                                      {"k", 1e6},
                                                                      {"M", 1e9},
                                                                      {"G", 1e12},
                                                                      {"T", 1e15},
                                                                      {"P", 1e18},
                                                                      {"Ki", 1024e3},
                                                                      {"Mi", 1048576e3},
                                                                      {"Gi", 1073741824e3},
                                                                      {"Ti", 1099511627776e3},
                                                                      {"Pi", 1125899906842624e3},
                                                                      {"n", 1e-6},
                                                                      {"u", 1e-3}}};

}  // namespace

Result<int64_t> parse_quantity_milli(std::string_view text) {
  const auto refuse = [&] {
    return fail(ErrorCode::kInvalid, "reading the quantity \"" + std::string(text) +
                                         "\": write it like 50Gi, 500M, 2 or 100m");
  };
  const size_t digits = text.find_first_not_of("0123456789.");
  const std::string_view number_text = text.substr(0, digits);
  if (number_text.empty()) return refuse();
  double number = 0;
  const auto [end, error] =
      std::from_chars(number_text.data(), number_text.data() + number_text.size(), number);
  if (error != std::errc() || end != number_text.data() + number_text.size()) return refuse();
  const std::string_view suffix =
      digits == std::string_view::npos ? std::string_view() : text.substr(digits);
  if (!suffix.empty() && (suffix[0] == 'e' || suffix[0] == 'E')) {
    int exponent = 0;
    const auto [stop, bad] =
        std::from_chars(suffix.data() + 1, suffix.data() + suffix.size(), exponent);
    if (bad != std::errc() || stop != suffix.data() + suffix.size()) return refuse();
    number *= std::pow(10.0, exponent) * 1e3;
  } else {
    double factor = 0;
    for (const auto& [unit, milli] : kUnits) {
      if (unit == suffix) factor = milli;
    }
    if (factor == 0) return refuse();
    number *= factor;
  }
  if (number > 9.2e18) {
    return fail(ErrorCode::kInvalid, "reading the quantity \"" + std::string(text) +
                                         "\": it is too large; at most 8Pi can be meant");
  }
  return static_cast<int64_t>(std::ceil(number));
}

Result<Quantity> parse_quantity(std::string_view text) {
  return parse_quantity_milli(text).map([](int64_t milli) { return Quantity{milli}; });
}

std::string format_quantity(Quantity quantity) {
  constexpr int64_t kMebibyte = int64_t{1024} * 1024 * 1000;
  const int64_t milli = quantity.milli;
  if (milli > 0 && milli % kMebibyte == 0) return std::to_string(milli / kMebibyte) + "Mi";
  if (milli % 1000 == 0) return std::to_string(milli / 1000);
  return std::to_string(milli) + "m";
}

Result<uint64_t> parse_bytes(std::string_view text) {
  return parse_quantity_milli(text).map(
      [](int64_t milli) { return static_cast<uint64_t>((milli + 999) / 1000); });
}

std::string format_bytes(uint64_t bytes) {
  constexpr std::array<const char*, 6> kSuffixes{"", "Ki", "Mi", "Gi", "Ti", "Pi"};
  double value = static_cast<double>(bytes);
  size_t step = 0;
  while (value >= 1024 && step + 1 < kSuffixes.size()) {
    value /= 1024;
    ++step;
  }
  std::array<char, 32> text{};
  const bool whole = value >= 100 || value == std::floor(value);
  std::snprintf(text.data(), text.size(), whole ? "%.0f%s" : "%.1f%s", value, kSuffixes[step]);
  return text.data();
}

}  // namespace compilecache
