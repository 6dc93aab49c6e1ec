#include "cli/status/status_command.hpp"

#include <nlohmann/json.hpp>
#include <ostream>

#include "cli/cluster/cluster.hpp"
#include "cli/status/overview_reading.hpp"
#include "cli/text/structured_output.hpp"

namespace compilecache::cli {
namespace {

using nlohmann::json;

constexpr std::chrono::seconds kWatchInterval{2};

std::string told(const StatusOptions& options, const std::vector<CacheOverview>& overviews) {
  if (!options.output.empty()) {
    json all = json::array();
    for (const CacheOverview& overview : overviews) all.push_back(json_of(overview));
    return structured(options.name.empty() ? all : all.front(), options.output);
  }
  std::string text;
  for (const CacheOverview& overview : overviews) {
    text += (text.empty() ? "" : "\n") + text_of(overview);
  }
  return text;
}

// A terminal shows the newest alone; elsewhere YAML's documents and texts are kept apart.
constexpr char kClear[] = "\033[H\033[2J\033[3J";
const char* between(const StatusOptions& options) {
  if (options.terminal) return kClear;
  if (options.output == "yaml") return "---\n";
  return options.output.empty() ? "\n" : "";
}

// Until it is interrupted. An API server that is away for a while ends nothing.
int watch(const StatusOptions& options, const kube::Client& client, const std::string& ns,
          std::ostream& out, std::ostream& errors) {
  std::string last, last_error;
  for (bool first = true;; (void)client.pause(kWatchInterval)) {
    const auto overviews = read_overviews(client, ns, options.name);
    const std::string error = overviews ? "" : overviews.error().message;
    if (!error.empty() && error != last_error) {
      errors << "kubectl compilecache status: " << error << "\n";
    }
    if (!error.empty() && first) return 1;
    last_error = error;
    if (!overviews) continue;
    const std::string text = told(options, *overviews);
    if (first && overviews->empty()) errors << none_text(ns);
    if (!first && text == last) continue;
    out << (first && !options.terminal ? "" : between(options)) << text << std::flush;
    last = text;
    first = false;
  }
}

}  // namespace

int run_status(const StatusOptions& options, std::ostream& out, std::ostream& errors) {
  const auto refuse = [&](const Error& error) {
    errors << "kubectl compilecache status: " << error.message << "\n";
    return 1;
  };
  const auto cluster = connect({options.ns, options.kubeconfig, options.context});
  if (!cluster) return refuse(cluster.error());
  const std::string ns = options.all_namespaces ? "" : cluster->ns;
  if (options.watch) return watch(options, cluster->client, ns, out, errors);
  const auto overviews = read_overviews(cluster->client, ns, options.name);
  if (!overviews) return refuse(overviews.error());
  if (overviews->empty()) errors << none_text(ns);
  out << told(options, *overviews);
  return 0;
}

}  // namespace compilecache::cli
