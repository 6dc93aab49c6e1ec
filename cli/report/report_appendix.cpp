#include "cli/report/report_appendix.hpp"

#include <algorithm>

#include "api/summary.hpp"
#include "cli/report/report_chart.hpp"
#include "cli/report/report_words.hpp"
#include "cli/text/page.hpp"

namespace compilecache::cli {
namespace {

void write_wrong(const Report& report, Markup& page) {
  for (const ReportedCache& cache : report.caches) {
    for (const WrongCondition& wrong : cache.overview.wrong) {
      page.html("<p class=\"bad\">").text(cache.overview.ns + "/" + cache.overview.name);
      page.html(": ").text(wrong.type).html(", ").text(wrong.reason);
      if (!wrong.message.empty()) page.html(": ").text(wrong.message);
      page.html("</p>\n");
    }
  }
}

void write_cold(const ReportedCold& one, Markup& page) {
  page.html("<div class=\"card\"><b>").number(one.cold.pods).html(" of the last ");
  page.number(one.recent_pods).html(" pods of ").text(one.ns + "/" + one.cache);
  page.html("</b>: <code>").text(one.cold.reason).html("</code>");
  if (!one.cold.why.empty()) page.html("<p>").text(one.cold.why).html("</p>");
  if (!one.cold.change.empty()) page.html("<p>What to do: ").text(one.cold.change).html("</p>");
  page.html("<p class=\"soft\"><code>kubectl compilecache explain ").text(one.cold.pod);
  page.html(" -n ").text(one.ns).html("</code></p></div>\n");
}

void write_faults(const Report& report, Markup& page) {
  page.html("<h3>Faults</h3>\n");
  write_wrong(report, page);
  if (report.faulty_pods == 0) {
    page.html("<p>None of the last ").number(report.recent_pods);
    page.html(" pods stayed cold because of a fault.</p>\n");
  }
  for (const ReportedCold& one : report.cold) {
    if (!one.expected) write_cold(one, page);
  }
}

void write_first_pods(const Report& report, Markup& page) {
  if (report.first_pods == 0) return;
  page.html(
      "<h3>First pods of their kind</h3>\n<p class=\"soft\">They compile for the pods after ");
  page.html("them. <code>kubectl compilecache prewarm</code> does it before a roll-out.</p>\n");
  for (const ReportedCold& one : report.cold) {
    if (one.expected) write_cold(one, page);
  }
}

void write_archives(const Report& report, Markup& page) {
  page.html("<h3>Archives by GPU and age</h3>\n");
  for (const std::string& why : report.unread) {
    page.html("<p class=\"bad\">Not all are known: ").text(why).html("</p>\n");
  }
  if (report.products.empty() && report.unread.empty()) page.html("<p>None yet.</p>\n");
  for (const ProductArchives& product : report.products) {
    page.html("<div class=\"card\"><b>");
    page.text(product.gpu_product.empty() ? "any GPU" : product.gpu_product).html("</b>: ");
    page.text(counted_text(product.archives, "archive") + ", " + size_text(product.bytes));
    page.add(age_bar(product.ages)).html("</div>\n");
  }
}

void number_cell(const std::string& figure, const char* label, Markup& page) {
  page.html("<td class=\"num\" data-label=\"").text(label).html("\">").text(figure).html("</td>");
}

void write_cache(const ReportedCache& cache, Markup& page) {
  const CacheOverview& overview = cache.overview;
  const LastStarts& starts = overview.starts;
  page.html("<tr><td>").text(overview.ns + "/" + overview.name).html("</td>");
  page.html("<td data-label=\"ready\">").text(overview.ready).html("</td>");
  number_cell(overview.unread.empty() ? std::to_string(overview.archives.size()) : "?", "archives",
              page);
  number_cell(percent_text(overview.loads), "hit rate", page);
  number_cell(starts.cold_pods > 0 ? start_text(starts.cold_seconds) : "-", "cold", page);
  number_cell(starts.warm_pods > 0 ? start_text(starts.warm_seconds) : "-", "warm", page);
  number_cell(time_text(std::max<int64_t>(0, overview.seconds_saved)), "saved", page);
  number_cell(hours_text(cache.gpu_hours_saved), "GPU-hours", page);
  page.html("</tr>\n");
}

void write_caches(const Report& report, Markup& page) {
  page.html("<h3>Each CompileCache</h3>\n");
  if (report.caches.empty()) {
    page.html("<p>There is none in ").text(scope_text(report)).html(".</p>\n");
    return;
  }
  page.html("<table><thead><tr><th>CompileCache</th><th>ready</th>");
  for (const char* head : {"archives", "hit rate", "cold", "warm", "saved", "GPU-hours"}) {
    page.html("<th class=\"num\">").text(head).html("</th>");
  }
  page.html("</tr></thead><tbody>\n");
  for (const ReportedCache& cache : report.caches) write_cache(cache, page);
  page.html("</tbody></table>\n");
}

void tell_history(const ReportHistory& history, Markup& page) {
  if (history.source.empty()) {
    page.html("<p class=\"soft\">Hit rate over time: not known, since CompileCaches count their ");
    page.html("starts as totals. <code>--prometheus URL</code> adds it.</p>\n");
  } else if (!history.error.empty()) {
    page.html("<p class=\"bad\">Hit rate over time: not known: ").text(history.error);
    page.html("</p>\n");
  } else if (std::none_of(history.points.begin(), history.points.end(),
                          [](const HistoryPoint& point) { return point.starts > 0; })) {
    page.html("<p class=\"soft\">Hit rate over time: Prometheus (").text(history.source);
    page.html(") knows of no start in the last ").number(kHistoryDays).html(" days.</p>\n");
  } else {
    page.html("<p class=\"soft\">Hit rate over time: from Prometheus, ").text(history.source);
    page.html(".</p>\n");
  }
}

void write_method(const Report& report, Markup& page) {
  const std::string starts = api::summary(report.loads);
  page.html("<h3>How this is counted</h3>\n<p class=\"soft\">Time saved: what the pods that made ");
  page.html("an archive spent on compiling, times the share of it that a later pod has used; an ");
  page.html("estimate (").number(report.seconds_saved).html(" s), since each CompileCache was ");
  page.html("created. GPU-hours: that time on each GPU of the pod, as the archives' keys say, or ");
  page.html("on one GPU if they do not.</p>\n<p class=\"soft\">Hit rate: starts that found an ");
  page.html("archive, of all starts of pods with a CompileCache");
  if (!starts.empty()) page.html(" (").text(starts).html(")");
  page.html(". Cold and warm: the loader's time and, from the first to the last compiled file, ");
  page.html("the compiler's, of the pods that each CompileCache remembers.</p>\n");
  page.html("<p class=\"soft\">");
  page.text(report.unread.empty() ? counted_text(report.archives, "archive") : "? archives");
  page.html(", ").text(size_text(report.bytes)).html(" in the stores.</p>\n");
  tell_history(report.history, page);
}

}  // namespace

void write_appendix(const Report& report, Markup& page) {
  page.html("<h2>Appendix for engineers</h2>\n");
  write_faults(report, page);
  write_first_pods(report, page);
  write_archives(report, page);
  write_caches(report, page);
  write_method(report, page);
}

}  // namespace compilecache::cli
