#include "cli/report/report_html.hpp"

#include "cli/report/markup.hpp"
#include "cli/report/report_appendix.hpp"
#include "cli/report/report_style.hpp"
#include "cli/report/report_summary.hpp"
#include "cli/report/report_words.hpp"

namespace compilecache::cli {
namespace {

void begin_page(const Report& report, Markup& page) {
  page.html("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
  page.html("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
  page.html("<meta http-equiv=\"Content-Security-Policy\" ");
  page.html("content=\"default-src 'none'; style-src 'unsafe-inline'\">\n<title>Compile caches, ");
  if (!report.cluster.empty()) page.text(report.cluster).html(", ");
  page.text(scope_text(report)).html("</title>\n<style>").html(kReportStyle);
  page.html("</style>\n</head>\n<body>\n<main>\n");
}

}  // namespace

std::string html_of(const Report& report) {
  Markup page;
  begin_page(report, page);
  write_summary(report, page);
  write_appendix(report, page);
  page.html("</main>\n</body>\n</html>\n");
  return page.take();
}

}  // namespace compilecache::cli
