#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/explain/start_phases.hpp"
#include "cli/text/page.hpp"

namespace compilecache::cli {

// "11 s", or "988 ms" where the time is known better.
std::string milliseconds_text(int64_t milliseconds, bool to_the_second);

// "1,234,567 tokens"
std::string tokens_text(int64_t tokens);

// A row for each phase, under the page's last line; parts of a phase stand under it, indented.
// Pure.
void tell_phases(const std::vector<StartPhase>& phases, Page& page);

}  // namespace compilecache::cli
