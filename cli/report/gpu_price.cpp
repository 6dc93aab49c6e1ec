#include "cli/report/gpu_price.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>

#include "base/strings.hpp"

namespace compilecache::cli {
namespace {

constexpr double kHighestPrice = 1e6;
constexpr double kMostMoney = 1e15;  // a double has every whole number up to there

bool is_currency(std::string_view text) {
  return text.size() == 3 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
}

std::string with_thousands(int64_t whole) {
  std::string digits = std::to_string(whole);
  for (size_t left = digits.size(); left > 3; left -= 3) digits.insert(left - 3, 1, ',');
  return digits;
}

}  // namespace

Result<GpuPrice> parse_price(const std::string& text) {
  const char* const end = text.data() + text.size();
  GpuPrice price;
  const auto [rest, error] =
      std::from_chars(text.data(), end, price.amount, std::chars_format::fixed);
  const std::string currency(trim(std::string_view(rest, static_cast<size_t>(end - rest))));
  const bool is_price = price.amount > 0 && price.amount <= kHighestPrice;
  if (error != std::errc() || !is_price || (!currency.empty() && !is_currency(currency))) {
    return fail(ErrorCode::kInvalid,
                "\"" + text + "\" is not a price; write 2.50, or 2.50EUR for another currency");
  }
  if (!currency.empty()) price.currency = currency;
  return price;
}

std::string money_text(double amount, const std::string& currency) {
  const double bounded = std::clamp(amount, 0.0, kMostMoney);
  if (bounded >= 99.995) return with_thousands(std::llround(bounded)) + " " + currency;
  std::array<char, 16> digits{};
  std::snprintf(digits.data(), digits.size(), "%.2f", bounded);
  return digits.data() + (" " + currency);
}

}  // namespace compilecache::cli
