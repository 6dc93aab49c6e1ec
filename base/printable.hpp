#pragma once

#include <string>
#include <string_view>

namespace compilecache {

// Text that a stranger wrote, made safe for one line of a terminal. "?" replaces control characters
// (all below the space, DEL, C1), invisible characters and every byte that is not UTF-8. It also
// replaces those that change how the rest is shown (U+202E and other directions, tags). Pure.
std::string printable(std::string_view text);

// JSON made safe in the same way for a terminal, as the same JSON: within its texts such a
// character becomes an escape ("\u202e"). The newlines between values stay.
std::string printable_json(std::string_view json);

}  // namespace compilecache
