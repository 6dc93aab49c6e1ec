#include "cli/report/report_command.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/clock.hpp"
#include "cli/cluster/cluster.hpp"
#include "cli/report/browser.hpp"
#include "cli/report/prometheus.hpp"
#include "cli/report/report_html.hpp"
#include "cli/report/report_model.hpp"
#include "cli/status/overview_reading.hpp"
#include "cli/text/structured_output.hpp"

namespace compilecache::cli {
namespace {

constexpr int kMadeWithFaults = 3;
constexpr char kStandardOutput[] = "-";

ReportHistory history_of(const std::string& prometheus, const std::string& ns, WallTime now) {
  ReportHistory history{.source = prometheus};
  if (prometheus.empty()) return history;
  const auto asked = [&]() -> Result<std::vector<HistoryPoint>> {
    const auto answer = ask_prometheus(prometheus, history_target(ns, now));
    if (!answer) return unexpected(answer.error());
    return read_history(answer->status, answer->body, now);
  };
  auto points = asked();
  if (points) {
    history.points = std::move(*points);
  } else {
    history.error = points.error().with("asking Prometheus at " + prometheus).message;
  }
  return history;
}

bool to_file(const ReportOptions& options) {
  return !options.file.empty() && options.file != kStandardOutput;
}

Status write_page(const std::string& file, const std::string& page) {
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out << page << std::flush;
  if (out) return {};
  return fail(ErrorCode::kIo, "writing " + file + ": " + std::strerror(errno));
}

}  // namespace

int run_report(const ReportOptions& options, std::ostream& out, std::ostream& errors) {
  const auto tell = [&](const std::string& what) {
    errors << "kubectl compilecache report: " << what << "\n";
  };
  if (options.terminal && options.output == "html" && !to_file(options)) {
    tell(
        "the page is HTML, not for a terminal; write it to a file (-f report.html) or ask for -o "
        "yaml");
    return 2;
  }
  const auto cluster = connect({options.ns, options.kubeconfig, options.context});
  if (!cluster) return tell(cluster.error().message), 1;
  const std::string ns = options.all_namespaces ? "" : cluster->ns;
  const auto overviews = read_overviews(cluster->client, ns, "");
  if (!overviews) return tell(overviews.error().message), 1;
  if (overviews->empty()) errors << none_text(ns);
  const WallTime now = SystemClock::instance().wall();
  Report report = report_of(*overviews, ns, now);
  report.cluster = cluster->name;
  report.gpu_hour_price = options.gpu_hour_price;
  report.history = history_of(options.prometheus, ns, now);
  const std::string page =
      options.output == "html" ? html_of(report) : structured(json_of(report), options.output);
  if (to_file(options)) {
    if (const auto wrote = write_page(options.file, page); !wrote)
      return tell(wrote.error().message), 1;
  } else {
    out << page;
  }
  for (const std::string& unread : report.unread) tell(unread);
  std::vector<std::string> faults;
  if (!report.history.error.empty()) faults.push_back(report.history.error);
  if (options.open) {
    if (const auto shown = open_in_browser(options.file); !shown)
      faults.push_back(shown.error().message);
  }
  for (const std::string& fault : faults) tell(fault);
  return faults.empty() ? 0 : kMadeWithFaults;
}

}  // namespace compilecache::cli
