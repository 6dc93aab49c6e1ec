#pragma once

#include "cli/report/markup.hpp"
#include "cli/report/report_model.hpp"

// The second part of a report, for engineers: faults with what to do about them, first pods,
// archives, each CompileCache, and how everything is counted. Pure.

namespace compilecache::cli {

void write_appendix(const Report& report, Markup& page);

}  // namespace compilecache::cli
