#pragma once

#include <string>
#include <vector>

namespace CLI {
class Option;
}

namespace compilecache::cli {

// Whether an option is followed by a value; flags are not.
bool takes_value(const CLI::Option& option);

// The words that it accepts, of its CLI::IsMember; empty: any.
std::vector<std::string> choices_of(const CLI::Option& option);

}  // namespace compilecache::cli
