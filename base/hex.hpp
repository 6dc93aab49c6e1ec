#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace compilecache {

// Lower-case hexadecimal.
std::string to_hex(std::span<const uint8_t> bytes);

// Whether text is `length` lower-case hexadecimal digits.
bool is_hex(std::string_view text, size_t length);

}  // namespace compilecache
