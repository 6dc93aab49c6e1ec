#include "cli/report/report_html.hpp"

#include <algorithm>
#include <cmath>

#include "api/summary.hpp"
#include "cli/report/markup.hpp"
#include "cli/report/report_chart.hpp"
#include "cli/report/report_style.hpp"
#include "cli/text/page.hpp"

namespace compilecache::cli {
namespace {

// "95 s", "12 min", "38 h 20 min", "412 h".
std::string time_saved(int64_t seconds) {
  if (seconds < 120) return std::to_string(seconds) + " s";
  const int64_t minutes = seconds / 60, hours = minutes / 60;
  if (minutes < 120) return std::to_string(minutes) + " min";
  if (hours >= 100 || minutes % 60 == 0) return std::to_string(hours) + " h";
  return std::to_string(hours) + " h " + std::to_string(minutes % 60) + " min";
}

std::string percent_text(const api::LoadCounters& loads) {
  const auto percent = hit_percent(loads);
  return percent ? std::to_string(*percent) + " %" : "-";
}

std::string scope_of(const Report& report) {
  return report.ns.empty() ? "all namespaces" : "namespace " + report.ns;
}

void begin_page(const Report& report, Markup& page) {
  page.html("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
  page.html("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
  page.html("<meta http-equiv=\"Content-Security-Policy\" ");
  page.html("content=\"default-src 'none'; style-src 'unsafe-inline'\">\n<title>Compile caches, ");
  page.text(scope_of(report)).html("</title>\n<style>").html(kReportStyle);
  page.html("</style>\n</head>\n<body>\n<main>\n<h1>What compile caches have saved</h1>\n");
  page.html("<p class=\"soft\">").text(scope_of(report)).html(", ");
  page.text(minute_text(report.made)).html("</p>\n");
}

template <size_t N>
void tile(const std::string& figure, const char (&what)[N], const std::string& more, Markup& page) {
  page.html("<li><b>").text(figure).html("</b>").html(what);
  page.html("<div class=\"soft\">").text(more).html("</div></li>\n");
}

void write_tiles(const Report& report, Markup& page) {
  Markup gpu_hours;
  gpu_hours.number(report.gpu_hours_saved);
  const std::string starts = api::summary(report.loads);
  page.html("<ul class=\"tiles\">\n");
  tile(time_saved(report.seconds_saved), "of compiling saved",
       std::to_string(report.seconds_saved) + " s, an estimate", page);
  tile(gpu_hours.take(), "GPU-hours saved", "that GPUs would have waited", page);
  tile(percent_text(report.loads), "hit rate",
       starts.empty() ? "no start yet" : "starts so far: " + starts, page);
  tile(report.unread.empty() ? std::to_string(report.archives) : "?", "archives",
       size_text(report.bytes) + " in the stores", page);
  page.html("</ul>\n");
}

// The interval in which the fewest found an archive, and how many did of all.
void tell_points(const std::vector<HistoryPoint>& points, Markup& page) {
  double warm = 0, starts = 0;
  const HistoryPoint* lowest = nullptr;
  const auto share = [](const HistoryPoint& point) { return point.warm / point.starts; };
  for (const HistoryPoint& point : points) {
    if (!(point.starts > 0)) continue;
    warm += point.warm;
    starts += point.starts;
    if (lowest == nullptr || share(point) < share(*lowest)) lowest = &point;
  }
  const auto percent = [](double part) {
    return static_cast<int64_t>(100 * std::clamp(part, 0.0, 1.0));
  };
  page.html("<p>").number(percent(warm / starts)).html(" % of about ");
  page.number(std::max<int64_t>(1, std::llround(starts))).html(" starts of the last ");
  page.number(kHistoryDays).html(" days found an archive; the lowest was ");
  page.number(percent(share(*lowest))).html(" %, in the ").number(kHistoryStepSeconds / 3600);
  page.html(" hours up to ").text(minute_text(WallTime(std::chrono::seconds(lowest->time))));
  page.html(".</p>\n");
}

void write_history(const Report& report, Markup& page) {
  const ReportHistory& history = report.history;
  page.html("<h2>Hit rate over time</h2>\n");
  if (history.source.empty()) {
    page.html("<p>No history is known: the CompileCaches count their starts as totals alone. ");
    page.html("With <code>--prometheus URL</code> it stands here.</p>\n");
    return;
  }
  if (!history.error.empty()) {
    page.html("<p class=\"bad\">Not known: ").text(history.error).html("</p>\n");
    return;
  }
  const auto& points = history.points;
  if (std::none_of(points.begin(), points.end(), [](const auto& p) { return p.starts > 0; })) {
    page.html("<p>Prometheus (").text(history.source).html(") knows of no start in the last ");
    page.number(kHistoryDays).html(" days.</p>\n");
    return;
  }
  tell_points(points, page);
  page.add(hit_rate_chart(points));
  page.html("<p class=\"soft\">A column for each ").number(kHistoryStepSeconds / 3600);
  page.html(" hours with starts; green found an archive. From Prometheus, ");
  page.text(history.source).html("</p>\n");
}

void write_archives(const Report& report, Markup& page) {
  page.html("<h2>Archives by GPU and age</h2>\n");
  for (const std::string& why : report.unread) {
    page.html("<p class=\"bad\">Not all are known: ").text(why).html("</p>\n");
  }
  if (report.products.empty() && report.unread.empty()) page.html("<p>None yet.</p>\n");
  for (const ProductArchives& product : report.products) {
    page.html("<div class=\"card\"><b>");
    page.text(product.gpu_product.empty() ? "any GPU" : product.gpu_product);
    page.html("</b>: ").number(product.archives).html(" ");
    page.text(product.archives == 1 ? "archive, " : "archives, ").text(size_text(product.bytes));
    page.add(age_bar(product.ages)).html("</div>\n");
  }
}

void write_cold(const Report& report, Markup& page) {
  page.html("<h2>Pods that stayed cold, and why</h2>\n");
  page.html("<p class=\"soft\">Of the last pods that each CompileCache remembers.</p>\n");
  if (report.cold.empty()) page.html("<p>None of them.</p>\n");
  for (const ReportedCold& one : report.cold) {
    page.html("<div class=\"card\"><b>").number(one.cold.pods).html(" of the last ");
    page.number(one.recent_pods).html(" pods of ").text(one.ns + "/" + one.cache);
    page.html("</b>: <code>").text(one.cold.reason).html("</code>");
    if (!one.cold.why.empty()) page.html("<p>").text(one.cold.why).html("</p>");
    if (!one.cold.change.empty()) page.html("<p>What to do: ").text(one.cold.change).html("</p>");
    page.html("<p class=\"soft\"><code>kubectl compilecache explain ").text(one.cold.pod);
    page.html(" -n ").text(one.ns).html("</code></p></div>\n");
  }
}

void write_cache(const ReportedCache& cache, Markup& page) {
  const CacheOverview& overview = cache.overview;
  page.html("<tr><td>").text(overview.ns + "/" + overview.name).html("</td>");
  page.html("<td data-label=\"ready\">").text(overview.ready).html("</td>");
  page.html("<td class=\"num\" data-label=\"archives\">");
  page.text(overview.unread.empty() ? std::to_string(overview.archives.size()) : "?");
  page.html("</td><td class=\"num\" data-label=\"hit rate\">").text(percent_text(overview.loads));
  page.html("</td><td class=\"num\" data-label=\"saved\">");
  page.text(time_saved(std::max<int64_t>(0, overview.seconds_saved)));
  page.html("</td><td class=\"num\" data-label=\"GPU-hours\">").number(cache.gpu_hours_saved);
  page.html("</td></tr>\n");
}

void write_caches(const Report& report, Markup& page) {
  page.html("<h2>Each CompileCache</h2>\n");
  if (report.caches.empty()) {
    page.html("<p>There is none in ").text(scope_of(report)).html(".</p>\n");
    return;
  }
  page.html("<table><thead><tr><th>CompileCache</th><th>ready</th><th class=\"num\">archives</th>");
  page.html("<th class=\"num\">hit rate</th><th class=\"num\">saved</th>");
  page.html("<th class=\"num\">GPU-hours</th></tr></thead><tbody>\n");
  for (const ReportedCache& cache : report.caches) write_cache(cache, page);
  page.html("</tbody></table>\n");
  for (const ReportedCache& cache : report.caches) {
    for (const WrongCondition& wrong : cache.overview.wrong) {
      page.html("<p class=\"bad\">").text(cache.overview.ns + "/" + cache.overview.name);
      page.html(": ").text(wrong.type).html(", ").text(wrong.reason);
      if (!wrong.message.empty()) page.html(": ").text(wrong.message);
      page.html("</p>\n");
    }
  }
}

void end_page(Markup& page) {
  page.html("<h2>How this is counted</h2>\n<p class=\"soft\">Time saved: what the pods that made ");
  page.html("an archive spent on compiling, times the share of it that a later pod has used; an ");
  page.html("estimate, since each CompileCache was made. GPU-hours: that time on each GPU of the ");
  page.html("pod, as the archives' keys say, or on one GPU where they do not. Hit rate: starts ");
  page.html("that found an archive, of all starts of pods with a CompileCache.</p>\n");
  page.html("</main>\n</body>\n</html>\n");
}

}  // namespace

std::string html_of(const Report& report) {
  Markup page;
  begin_page(report, page);
  write_tiles(report, page);
  write_history(report, page);
  write_archives(report, page);
  write_cold(report, page);
  write_caches(report, page);
  end_page(page);
  return page.take();
}

}  // namespace compilecache::cli
