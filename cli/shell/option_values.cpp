#include "cli/shell/option_values.hpp"

#include <CLI/CLI.hpp>

#include "base/strings.hpp"

namespace compilecache::cli {

bool takes_value(const CLI::Option& option) { return !option.get_type_name().empty(); }

// CLI11 shows them in the name of the type: "TEXT:{json,yaml}".
std::vector<std::string> choices_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const size_t open = type.find('{');
  if (open == std::string::npos || type.back() != '}') return {};
  return split(type.substr(open + 1, type.size() - open - 2), ',');
}

}  // namespace compilecache::cli
