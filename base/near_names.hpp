#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace compilecache {

// The names that somebody who wrote `text` may have meant, the nearest first. They are at most two
// edits away (a letter more, less, other, or two swapped), or begin with it. Two letters never
// stand for each other. Pure.
std::vector<std::string> near_names(std::string_view text, const std::vector<std::string>& names);

}  // namespace compilecache
