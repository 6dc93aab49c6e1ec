#pragma once

#include <string>
#include <string_view>

namespace compilecache {

// `text` of a stranger for a terminal, on one line: what could control it (ESC, ends of lines,
// tabs, all others below the space, DEL, C1) becomes "?", and so does every byte that is not UTF-8.
// Pure.
std::string printable(std::string_view text);

}  // namespace compilecache
