#include "cli/report/markup.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

#include "base/printable.hpp"

namespace compilecache::cli {

Markup& Markup::text(std::string_view any) {
  std::string line(any);
  std::replace_if(
      line.begin(), line.end(), [](char c) { return c == '\n' || c == '\r' || c == '\t'; }, ' ');
  for (const char c : printable(line)) {
    switch (c) {
      case '&':
        out_ += "&amp;";
        break;
      case '<':
        out_ += "&lt;";
        break;
      case '>':
        out_ += "&gt;";
        break;
      case '"':
        out_ += "&quot;";
        break;
      case '\'':
        out_ += "&#39;";
        break;
      default:
        out_ += c;
    }
  }
  return *this;
}

Markup& Markup::number(int64_t value) {
  out_ += std::to_string(value);
  return *this;
}

Markup& Markup::number(double value) {
  std::array<char, 400> digits{};  // the largest double has 309 before the point
  std::snprintf(digits.data(), digits.size(), "%.1f", value);
  out_ += digits.data();
  return *this;
}

Markup& Markup::add(Markup other) {
  out_ += other.take();
  return *this;
}

}  // namespace compilecache::cli
