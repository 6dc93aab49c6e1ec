#include "cli/status/status_command.hpp"

#include <nlohmann/json.hpp>
#include <ostream>

#include "base/clock.hpp"
#include "cli/cluster/cluster.hpp"
#include "cli/cluster/watch_text.hpp"
#include "cli/status/overview_reading.hpp"
#include "cli/text/complaint.hpp"
#include "cli/text/structured_output.hpp"

namespace compilecache::cli {
namespace {

using nlohmann::json;

std::string screen_of(const StatusOptions& options, const std::vector<CacheOverview>& overviews) {
  if (options.output.empty()) {
    const WallTime now = SystemClock::instance().wall();
    std::string text;
    for (const CacheOverview& overview : overviews) {
      text += (text.empty() ? "" : "\n") + text_of(overview, now);
    }
    return text;
  }
  json all = json::array();
  for (const CacheOverview& overview : overviews) all.push_back(json_of(overview));
  if (options.output == "name") return names_of(all, "compilecache.compilecache.dev");
  return structured(options.name.empty() ? all : all.front(), options.output);
}

}  // namespace

int run_status(const StatusOptions& options, std::ostream& out, std::ostream& errors) {
  const auto cluster = connect({options.ns, options.kubeconfig, options.context});
  if (!cluster) return complain(cluster.error(), errors);
  const std::string ns = options.all_namespaces ? "" : cluster->ns;
  bool said_none = false;
  const auto read = [&]() -> Result<std::string> {
    const auto overviews = read_overviews(cluster->client, ns, options.name, options.selector);
    if (!overviews) return unexpected(overviews.error());
    if (overviews->empty() && !said_none) errors << none_text(ns);
    said_none = overviews->empty();
    return screen_of(options, *overviews);
  };
  if (options.watch) {
    return watch_text(cluster->client, read, {options.terminal, options.output}, out, errors);
  }
  const auto text = read();
  if (!text) return complain(text.error(), errors);
  out << *text;
  return 0;
}

}  // namespace compilecache::cli
