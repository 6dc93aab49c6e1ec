#include "cli/status_command.hpp"

#include <nlohmann/json.hpp>
#include <ostream>

#include "cli/cache_overview.hpp"
#include "cli/cluster.hpp"
#include "cli/structured_output.hpp"
#include "kube/client.hpp"
#include "operator/cluster/cluster_view.hpp"

namespace compilecache::cli {
namespace {

using nlohmann::json;

constexpr std::chrono::seconds kWatchInterval{2};

// The objects as they are; `ns` empty: of all namespaces.
Result<json> read_caches(const kube::Client& client, const std::string& ns,
                         const std::string& name) {
  if (name.empty()) {
    auto listed = client.list_all(controller::resources::kCompileCaches, {.ns = ns});
    if (!listed) return unexpected(listed.error().with("listing CompileCaches"));
    return std::move(listed->at("items"));
  }
  auto cache = client.get(controller::resources::kCompileCaches, ns, name);
  if (!cache) return unexpected(cache.error().with("reading CompileCache " + ns + "/" + name));
  return json::array({std::move(*cache)});
}

Result<std::vector<api::CompileCacheArchive>> read_all_archives(const kube::Client& client,
                                                                const std::string& ns) {
  const auto listed = client.list_all(controller::resources::kCompileCacheArchives, {.ns = ns});
  if (!listed) return unexpected(listed.error().with("listing CompileCacheArchives"));
  std::vector<api::CompileCacheArchive> archives;
  for (const json& item : listed->at("items")) {
    if (auto archive = api::parse_archive(item)) archives.push_back(std::move(*archive));
  }
  return archives;
}

Result<std::vector<CacheOverview>> read_overviews(const kube::Client& client, const std::string& ns,
                                                  const std::string& name) {
  const auto objects = read_caches(client, ns, name);
  if (!objects) return unexpected(objects.error());
  std::vector<CacheOverview> overviews;
  if (objects->empty()) return overviews;
  const auto archives = read_all_archives(client, ns);
  for (const json& object : *objects) {
    const auto cache = api::parse_compile_cache(object);
    if (!cache) {
      const api::ObjectMeta meta = api::object_meta(object);
      overviews.push_back({.ns = meta.ns, .name = meta.name, .ready = "Unknown"});
      overviews.back().wrong.push_back({"Readable", "Unreadable", cache.error().message});
      overviews.back().unread = "the CompileCache cannot be read";
      continue;
    }
    overviews.push_back(
        overview_of(*cache, archives ? *archives : std::vector<api::CompileCacheArchive>{}));
    if (!archives) overviews.back().unread = archives.error().message;
  }
  return overviews;
}

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

void warn_of_none(const std::string& ns, std::ostream& errors) {
  errors << "There is no CompileCache in " << (ns.empty() ? "any namespace" : "the namespace " + ns)
         << ".\n";
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
    if (first && overviews->empty()) warn_of_none(ns, errors);
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
  if (overviews->empty()) warn_of_none(ns, errors);
  out << told(options, *overviews);
  return 0;
}

}  // namespace compilecache::cli
