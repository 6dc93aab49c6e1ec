#pragma once

#include "cli/report/markup.hpp"
#include "cli/report/report_model.hpp"

// The first part of a report, for those who pay for the GPUs: what was saved, when and where, and
// what a start takes with and without an archive. It names no command and no reason of the API.
// Pure.

namespace compilecache::cli {

// Headline, figures, "In short", cold beside warm starts, and the hit rate over time if it is
// known.
void write_summary(const Report& report, Markup& page);

}  // namespace compilecache::cli
