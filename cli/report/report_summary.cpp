#include "cli/report/report_summary.hpp"

#include <algorithm>
#include <cmath>

#include "cli/report/report_chart.hpp"
#include "cli/report/report_words.hpp"

namespace compilecache::cli {
namespace {

bool has_starts(const HistoryPoint& point) { return point.starts > 0; }

std::string money_saved(const Report& report) {
  const auto& [price, currency] = report.gpu_hour_price;
  return money_text(price * report.gpu_hours_saved, currency);
}

std::string headline(const Report& report) {
  if (report.seconds_saved <= 0) return "Compile caches have saved nothing yet";
  // Where there are hardly any, the time itself is what was saved.
  if (report.gpu_hours_saved < 0.05)
    return "Compile caches saved " + time_text(report.seconds_saved) + " of compiling";
  return "Compile caches saved " + hours_text(report.gpu_hours_saved) + " GPU-hours" +
         (report.gpu_hour_price.amount > 0 ? ", about " + money_saved(report) : "");
}

void write_headline(const Report& report, Markup& page) {
  page.html("<h1>").text(headline(report)).html("</h1>\n<p class=\"soft\">");
  if (!report.cluster.empty()) page.html("Cluster <b>").text(report.cluster).html("</b>, ");
  page.text(scope_text(report)).html(", ");
  if (report.since) {
    page.html("from ").text(day_text(*report.since)).html(" to ");
    page.text(day_text(report.made)).html("; ");
  }
  page.html("made ").text(minute_text(report.made)).html("</p>\n");
}

template <size_t N>
void tile(const std::string& figure, const char (&what)[N], const std::string& more, Markup& page) {
  page.html("<li><b>").text(figure).html("</b>").html(what);
  page.html("<div class=\"soft\">").text(more).html("</div></li>\n");
}

void write_tiles(const Report& report, Markup& page) {
  const api::LoadCounters& loads = report.loads;
  const double warm = static_cast<double>(loads.exact) + static_cast<double>(loads.compatible);
  const double all = warm + static_cast<double>(loads.missing) + static_cast<double>(loads.failed);
  page.html("<ul class=\"tiles\">\n");
  tile(hours_text(report.gpu_hours_saved), "GPU-hours saved", "that GPUs would have waited", page);
  if (report.gpu_hour_price.amount > 0) {
    const auto& [price, currency] = report.gpu_hour_price;
    tile(money_saved(report), "saved", "at " + money_text(price, currency) + " a GPU-hour", page);
  }
  tile(time_text(report.seconds_saved), "of compiling saved", "an estimate", page);
  tile(percent_text(loads), "hit rate",
       all > 0 ? std::to_string(std::llround(warm)) + " of " + std::to_string(std::llround(all)) +
                     " starts reused saved code"
               : "no start yet",
       page);
  page.html("</ul>\n");
}

// The CompileCache that saved most of those whose starts are known; nullptr: none.
const CacheOverview* best_known(const Report& report) {
  const auto found = std::find_if(report.caches.begin(), report.caches.end(), [](const auto& one) {
    const LastStarts& starts = one.overview.starts;
    return starts.cold_pods > 0 && starts.warm_pods > 0 &&
           starts.warm_seconds < starts.cold_seconds;
  });
  return found == report.caches.end() ? nullptr : &found->overview;
}

void tell_recent(const Report& report, Markup& page) {
  if (report.recent_pods == 0) return;
  if (report.first_pods > 0) {
    page.html("<li>").number(report.first_pods).html(" of the last ").number(report.recent_pods);
    page.html(
        " starts had to compile because they were the first of their kind, for example after ");
    page.html("a new release. Later starts reuse what they compiled.</li>\n");
  }
  if (report.faulty_pods > 0) {
    page.html("<li class=\"bad\">").number(report.faulty_pods).html(" of the last ");
    page.number(report.recent_pods).html(" starts could not use saved code because of a fault. ");
    page.html("Engineers can repair it; the appendix says how.</li>\n");
  } else {
    page.html("<li>None of the last ").number(report.recent_pods);
    page.html(" starts was slow because of a fault.</li>\n");
  }
}

void write_in_short(const Report& report, Markup& page) {
  page.html(
      "<h2>In short</h2>\n<p>When an application starts on a GPU, it first compiles code for ");
  page.html(
      "that GPU, and the GPU waits. With a compile cache it reuses what an earlier start has ");
  page.html("compiled.</p>\n<ul>\n");
  if (const CacheOverview* best = best_known(report)) {
    page.html("<li>A start of <b>").text(best->name).html("</b> spends ");
    page.text(start_text(best->starts.warm_seconds)).html(" on this instead of ");
    page.text(start_text(best->starts.cold_seconds)).html(".</li>\n");
  }
  tell_recent(report, page);
  const auto troubled =
      std::count_if(report.caches.begin(), report.caches.end(),
                    [](const ReportedCache& one) { return !one.overview.wrong.empty(); });
  if (troubled > 0) {
    page.html("<li class=\"bad\">A problem now: ").number(static_cast<int64_t>(troubled));
    page.html(" of ").text(
        counted_text(static_cast<int64_t>(report.caches.size()), "compile cache"));
    page.html("; the appendix says which and why.</li>\n");
  }
  page.html("</ul>\n");
}

void write_starts(const Report& report, Markup& page) {
  std::vector<const CacheOverview*> known;
  for (const ReportedCache& cache : report.caches) {
    const LastStarts& starts = cache.overview.starts;
    if (starts.cold_pods > 0 && starts.warm_pods > 0) known.push_back(&cache.overview);
  }
  if (known.empty()) return;
  constexpr size_t kMostShown = 8;
  if (known.size() > kMostShown) known.resize(kMostShown);
  page.html(
      "<h2>Cold and warm starts</h2>\n<p class=\"soft\">The time that a start spends on compiling "
      "and ");
  page.html("on loading saved code: without saved code (cold) and with it (warm). Medians of the ");
  page.html("last starts.</p>\n").add(start_bars(known));
}

// The interval in which the fewest found an archive, and how many did of all.
void tell_points(const std::vector<HistoryPoint>& points, Markup& page) {
  double warm = 0, starts = 0;
  const HistoryPoint* lowest = nullptr;
  const auto share = [](const HistoryPoint& point) { return point.warm / point.starts; };
  for (const HistoryPoint& point : points) {
    if (!has_starts(point)) continue;
    warm += point.warm;
    starts += point.starts;
    if (lowest == nullptr || share(point) < share(*lowest)) lowest = &point;
  }
  page.html("<p>").number(percent_of(warm, starts)).html(" % of about ");
  page.number(std::max<int64_t>(1, std::llround(starts))).html(" starts of the last ");
  page.number(kHistoryDays).html(" days reused saved code; the lowest was ");
  page.number(percent_of(share(*lowest), 1)).html(" %, in the ").number(kHistoryStepSeconds / 3600);
  page.html(" hours up to ").text(minute_text(WallTime(std::chrono::seconds(lowest->time))));
  page.html(".</p>\n");
}

void write_history(const ReportHistory& history, Markup& page) {
  if (std::none_of(history.points.begin(), history.points.end(), has_starts)) return;
  page.html("<h2>Hit rate over time</h2>\n");
  tell_points(history.points, page);
  page.add(hit_rate_chart(history.points));
  page.html("<p class=\"soft\">A column for each ").number(kHistoryStepSeconds / 3600);
  page.html(" hours with starts; the green part reused saved code.</p>\n");
}

}  // namespace

void write_summary(const Report& report, Markup& page) {
  write_headline(report, page);
  write_tiles(report, page);
  write_in_short(report, page);
  write_starts(report, page);
  write_history(report.history, page);
}

}  // namespace compilecache::cli
