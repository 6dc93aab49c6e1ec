#pragma once

#include <string>

#include "base/error.hpp"

// The price of one GPU for one hour, as people type it, and amounts of money as a report shows
// them.
//
//   auto price = parse_price("2.50 EUR");
//   if (price) std::cout << money_text(price->amount * gpu_hours, price->currency);  // "502 EUR"
//
// Pure.

namespace compilecache::cli {

struct GpuPrice {
  double amount = 0;             // above 0; 0: not known
  std::string currency = "USD";  // three capital letters
};

// A number, and a currency's code if it is not USD: "2.5", "2.50EUR", "2.50 EUR". kInvalid:
// anything else, or a price of nothing or of more than a million.
Result<GpuPrice> parse_price(const std::string& text);

// "1,234 EUR", "37.50 EUR": whole from 100 on.
std::string money_text(double amount, const std::string& currency);

}  // namespace compilecache::cli
