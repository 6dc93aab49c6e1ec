#include "base/printable.hpp"

#include <cstdint>

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

}  // namespace

std::string printable(std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  while (!text.empty()) {
    uint32_t code = 0;
    const size_t length = character_at(text, code);
    const bool controls = code < 0x20 || (code >= 0x7F && code < 0xA0);
    if (length == 0 || controls) {
      shown += '?';
    } else {
      shown += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return shown;
}

}  // namespace compilecache
