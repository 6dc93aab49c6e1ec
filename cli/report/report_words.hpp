#pragma once

#include <cstdint>
#include <string>

#include "cli/report/report_model.hpp"

// The figures of a report in words, the same wherever they stand on the page. Pure.

namespace compilecache::cli {

// "95 s", "12 min", "38 h 20 min", "412 h".
std::string time_text(int64_t seconds);

// "4.1 s", "172 s", from ten minutes on as time_text().
std::string start_text(double seconds);

// "201.0"
std::string hours_text(double hours);

// "93 %"; "-" without a start.
std::string percent_text(const api::LoadCounters& loads);

// "2026-10-03"
std::string day_text(WallTime time);

// "all namespaces", "namespace ml".
std::string scope_text(const Report& report);

// "1 archive", "3 archives"
std::string counted_text(int64_t count, const std::string& noun);

}  // namespace compilecache::cli
