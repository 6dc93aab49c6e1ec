#include "base/printable.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace compilecache {
namespace {

// How many bytes the character at the beginning takes; 0: it is none.
size_t character_at(std::string_view text, uint32_t& code) {
  const auto byte = [&](size_t at) { return static_cast<unsigned char>(text[at]); };
  const unsigned char first = byte(0);
  if (first < 0x80) {
    code = first;
    return 1;
  }
  const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < length) return 0;
  code = first & (0xFFU >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) return 0;
    code = (code << 6U) | (byte(i) & 0x3FU);
  }
  constexpr uint32_t kShortest[] = {0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  return code < kShortest[length - 2] || code > 0x10FFFF || surrogate ? 0 : length;
}

// Formatting characters: they take no room, and move or hide what is around them.
bool is_invisible(uint32_t code) {
  struct Range {
    uint32_t first, last;
  };
  constexpr Range kRanges[] = {{0xAD, 0xAD},     {0x61C, 0x61C},   {0x180E, 0x180E},
                               {0x200B, 0x200F}, {0x2028, 0x202E}, {0x2060, 0x206F},
                               {0xFEFF, 0xFEFF}, {0xFFF9, 0xFFFB}, {0xE0000, 0xE0FFF}};
  return std::any_of(std::begin(kRanges), std::end(kRanges),
                     [&](const Range& range) { return code >= range.first && code <= range.last; });
}

// Calls `replace` for each character that is not to be shown, with its code: with that of "?" where
// it is none.
template <typename Replace>
std::string replaced(std::string_view text, Replace replace) {
  std::string shown;
  shown.reserve(text.size());
  while (!text.empty()) {
    uint32_t code = 0;
    const size_t length = character_at(text, code);
    const bool controls = code < 0x20 || (code >= 0x7F && code < 0xA0);
    if (length == 0 || controls || is_invisible(code)) {
      shown += replace(length == 0 ? uint32_t{'?'} : code);
    } else {
      shown += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return shown;
}

void append_unit(std::string& text, uint32_t unit) {
  constexpr char kDigits[] = "0123456789abcdef";
  text += "\\u";
  for (int shift = 12; shift >= 0; shift -= 4) {
    text += kDigits[(unit >> static_cast<unsigned>(shift)) & 0xFU];
  }
}

}  // namespace

std::string printable(std::string_view text) {
  return replaced(text, [](uint32_t) { return std::string("?"); });
}

std::string printable_json(std::string_view json) {
  return replaced(json, [](uint32_t code) {
    if (code == '\n' || code == '?') return std::string(1, static_cast<char>(code));
    std::string escape;
    if (code < 0x10000) {
      append_unit(escape, code);
    } else {
      append_unit(escape, 0xD800 + ((code - 0x10000) >> 10U));
      append_unit(escape, 0xDC00 + ((code - 0x10000) & 0x3FFU));
    }
    return escape;
  });
}

}  // namespace compilecache
