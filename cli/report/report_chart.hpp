#pragma once

#include <string>
#include <vector>

#include "base/clock.hpp"
#include "cli/report/hit_history.hpp"
#include "cli/report/markup.hpp"
#include "cli/report/report_model.hpp"

// The drawings of a report, as SVG with their words beside them in HTML, so that these stay
// readable on a telephone. Colours are those of report_style.hpp. Pure.

namespace compilecache::cli {

// "2026-11-24 18:00 UTC".
std::string minute_text(WallTime time);

// A column for each interval with starts, filled as far as they found an archive. The points are in
// order, and at least one has starts.
Markup hit_rate_chart(const std::vector<HistoryPoint>& points);

// For each CompileCache two bars, a cold and a warm start's time, on one scale. Both are known, and
// there is at least one.
Markup start_bars(const std::vector<const CacheOverview*>& caches);

// One bar: the shares of archives of each age, and what the colours mean.
Markup age_bar(const ArchiveAges& ages);

}  // namespace compilecache::cli
