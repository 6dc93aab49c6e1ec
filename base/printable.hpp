#pragma once

#include <string>
#include <string_view>

namespace compilecache {

// Text that a stranger wrote, made safe for one line of a terminal: control characters (all below
// the space, DEL, C1) become "?", and so does every byte that is not UTF-8. Pure.
std::string printable(std::string_view text);

}  // namespace compilecache
