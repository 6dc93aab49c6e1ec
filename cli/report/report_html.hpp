#pragma once

#include <string>

#include "cli/report/report_model.hpp"

// A report as one page of HTML that needs nothing else: no script, and nothing from anywhere, which
// it forbids itself too (Content-Security-Policy). It can be sent as it is. Pure.

namespace compilecache::cli {

std::string html_of(const Report& report);

}  // namespace compilecache::cli
