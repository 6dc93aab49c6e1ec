#include "cli/report/report_command.hpp"

#include <nlohmann/json.hpp>
#include <ostream>

#include "base/clock.hpp"
#include "cli/cluster/cluster.hpp"
#include "cli/report/prometheus.hpp"
#include "cli/report/report_html.hpp"
#include "cli/report/report_model.hpp"
#include "cli/status/overview_reading.hpp"
#include "cli/text/structured_output.hpp"

namespace compilecache::cli {
namespace {

constexpr int kWithoutHistory = 3;

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

}  // namespace

int run_report(const ReportOptions& options, std::ostream& out, std::ostream& errors) {
  const auto tell = [&](const std::string& what) {
    errors << "kubectl compilecache report: " << what << "\n";
  };
  const auto cluster = connect({options.ns, options.kubeconfig, options.context});
  if (!cluster) return tell(cluster.error().message), 1;
  const std::string ns = options.all_namespaces ? "" : cluster->ns;
  const auto overviews = read_overviews(cluster->client, ns, "");
  if (!overviews) return tell(overviews.error().message), 1;
  if (overviews->empty()) errors << none_text(ns);
  const WallTime now = SystemClock::instance().wall();
  Report report = report_of(*overviews, ns, now);
  report.history = history_of(options.prometheus, ns, now);
  out << (options.output == "html" ? html_of(report) : structured(json_of(report), options.output));
  for (const std::string& unread : report.unread) tell(unread);
  if (report.history.error.empty()) return 0;
  tell(report.history.error);
  return kWithoutHistory;
}

}  // namespace compilecache::cli
