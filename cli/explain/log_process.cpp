#include "cli/explain/log_process.hpp"

#include "base/strings.hpp"

namespace compilecache::cli {

std::string_view process_of(std::string_view prefix) {
  constexpr std::string_view kPid = " pid=", kTime = "2026-07-21 13:35:33";
  if (const size_t pid = prefix.rfind(kPid); pid != std::string_view::npos) {
    const size_t open = prefix.rfind('(', pid), close = prefix.find(')', pid);
    if (open != std::string_view::npos && close != std::string_view::npos) {
      return prefix.substr(open + 1, close - open - 1);
    }
  }
  const size_t open = prefix.rfind("[2"), close = prefix.rfind(']');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) return "";
  const std::string_view inside = prefix.substr(open + 1, close - open - 1);
  return inside.size() > kTime.size() ? trim(inside.substr(kTime.size())) : "";
}

}  // namespace compilecache::cli
