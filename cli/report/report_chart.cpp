#include "cli/report/report_chart.hpp"

#include <algorithm>
#include <cmath>

#include "base/time_format.hpp"
#include "cli/report/report_words.hpp"

namespace compilecache::cli {
namespace {

constexpr double kChartHeight = 100;
constexpr double kColumnStep = 10, kColumnWidth = 8;

std::string minute_of(const HistoryPoint& point) {
  return minute_text(WallTime(std::chrono::seconds(point.time)));
}

void draw_column(const HistoryPoint& point, double left, Markup& svg) {
  const double share = std::clamp(point.warm / point.starts, 0.0, 1.0);
  const double warm = kChartHeight * share;
  svg.html("<g><title>").text(minute_of(point)).html(": ");
  svg.number(percent_of(share, 1)).html(" % of ");
  svg.number(std::max<int64_t>(1, std::llround(point.starts))).html("</title>");
  svg.html("<rect class=\"cold\" x=\"").number(left).html("\" y=\"0\" width=\"");
  svg.number(kColumnWidth).html("\" height=\"").number(kChartHeight - warm).html("\"/>");
  svg.html("<rect class=\"warm\" x=\"").number(left).html("\" y=\"").number(kChartHeight - warm);
  svg.html("\" width=\"").number(kColumnWidth).html("\" height=\"").number(warm);
  svg.html("\"/></g>");
}

}  // namespace

std::string minute_text(WallTime time) {
  const std::string text = format_time(time);
  return text.substr(0, 10) + " " + text.substr(11, 5) + " UTC";
}

Markup hit_rate_chart(const std::vector<HistoryPoint>& points) {
  const int64_t first = points.front().time, last = points.back().time;
  const std::string from = minute_of(points.front()), to = minute_of(points.back());
  // A column's place is its time: where Prometheus knows nothing there is a gap.
  const auto column = [&](int64_t time) {
    const int64_t steps = (time - first) / kHistoryStepSeconds;
    return kColumnStep * static_cast<double>(steps);
  };
  Markup chart;
  chart.html("<div class=\"chart\"><div class=\"scale\"><span>100&nbsp;%</span><span>50&nbsp;%");
  chart.html("</span><span>0&nbsp;%</span></div><svg viewBox=\"0 0 ");
  chart.number(column(last) + kColumnStep).html(" ").number(kChartHeight);
  chart.html("\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"Hit rate from ");
  chart.text(from).html(" to ").text(to).html("\">");
  for (const HistoryPoint& point : points) {
    if (point.starts > 0) draw_column(point, column(point.time), chart);
  }
  chart.html("</svg><div class=\"days\"><span>").text(from).html("</span><span>");
  chart.text(to).html("</span></div></div>");
  return chart;
}

Markup start_bars(const std::vector<const CacheOverview*>& caches) {
  double longest = 0;
  for (const CacheOverview* cache : caches) {
    longest = std::max({longest, cache->starts.cold_seconds, cache->starts.warm_seconds});
  }
  Markup bars;
  const auto bar = [&](double seconds, int64_t pods, const auto& colour) {
    bars.html("<div class=\"start\"><span>")
        .html(colour)
        .html("</span><svg viewBox=\"0 0 100 10\" ");
    bars.html("preserveAspectRatio=\"none\" aria-hidden=\"true\"><rect class=\"").html(colour);
    bars.html("\" width=\"").number(longest > 0 ? std::max(0.5, 100 * seconds / longest) : 0.5);
    bars.html("\" height=\"10\"/></svg><span><b>").text(start_text(seconds));
    bars.html("</b> <span class=\"soft\">")
        .text(counted_text(pods, "start"))
        .html("</span></span></div>\n");
  };
  for (const CacheOverview* cache : caches) {
    bars.html("<div class=\"card\"><b>").text(cache->ns + "/" + cache->name).html("</b>\n");
    bar(cache->starts.cold_seconds, cache->starts.cold_pods, "cold");
    bar(cache->starts.warm_seconds, cache->starts.warm_pods, "warm");
    bars.html("</div>\n");
  }
  return bars;
}

Markup age_bar(const ArchiveAges& ages) {
  const double all =
      static_cast<double>(ages.day + ages.week + ages.month + ages.older + ages.unknown);
  Markup bar, keys;
  double left = 0;
  const auto share = [&](int64_t archives, const auto& colour, const auto& means) {
    if (archives == 0) return;
    const double width = 100 * static_cast<double>(archives) / all;
    bar.html("<rect class=\"").html(colour).html("\" x=\"").number(left);
    bar.html("\" y=\"0\" width=\"").number(width).html("\" height=\"10\"/>");
    keys.html("<li><svg class=\"key ").html(colour);
    keys.html("\" viewBox=\"0 0 1 1\"><rect width=\"1\" height=\"1\"/></svg>");
    keys.number(archives).html(" ").html(means).html("</li>");
    left += width;
  };
  share(ages.day, "age1", "saved within a day");
  share(ages.week, "age2", "within a week");
  share(ages.month, "age3", "within 30 days");
  share(ages.older, "age4", "longer ago");
  share(ages.unknown, "age5", "at a time that is not known");
  Markup both;
  both.html("<svg class=\"bar\" viewBox=\"0 0 100 10\" preserveAspectRatio=\"none\" ");
  both.html("aria-hidden=\"true\">").add(std::move(bar)).html("</svg><ul class=\"keys\">");
  return std::move(both.add(std::move(keys)).html("</ul>"));
}

}  // namespace compilecache::cli
