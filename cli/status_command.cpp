#include "cli/status_command.hpp"

#include <nlohmann/json.hpp>
#include <ostream>

#include "cli/cache_overview.hpp"
#include "kube/client.hpp"
#include "kube/config.hpp"
#include "kube/cpprest_transport.hpp"
#include "operator/cluster/cluster_view.hpp"

namespace compilecache::cli {
namespace {

using nlohmann::json;

// Somebody is waiting for the answer.
constexpr std::chrono::seconds kTimeout{10};
constexpr int kRetries = 2;

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

Result<std::vector<api::CompileCacheArchive>> read_archives(const kube::Client& client,
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
  const auto archives = read_archives(client, ns);
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

void print(const StatusOptions& options, const std::vector<CacheOverview>& overviews,
           std::ostream& out) {
  if (options.output == "json") {
    json all = json::array();
    for (const CacheOverview& overview : overviews) all.push_back(json_of(overview));
    const json& told = options.name.empty() ? all : all.front();
    out << told.dump(2, ' ', false, json::error_handler_t::replace) << "\n";
    return;
  }
  bool first = true;
  for (const CacheOverview& overview : overviews) {
    out << (first ? "" : "\n") << text_of(overview);
    first = false;
  }
}

}  // namespace

int run_status(const StatusOptions& options, std::ostream& out, std::ostream& errors) {
  const auto refuse = [&](const Error& error) {
    errors << "kubectl compilecache status: " << error.message << "\n";
    return 1;
  };
  const auto config = kube::load_config({options.kubeconfig, options.context});
  if (!config) return refuse(config.error());
  const auto transport = kube::make_transport(*config);
  if (!transport) return refuse(transport.error());
  const kube::Client client = kube::Client(*transport).with_timeout(kTimeout, kRetries);
  const std::string ns = options.all_namespaces ? ""
                         : options.ns.empty()   ? config->default_namespace
                                                : options.ns;
  const auto overviews = read_overviews(client, ns, options.name);
  if (!overviews) return refuse(overviews.error());
  if (overviews->empty()) {
    errors << "There is no CompileCache in "
           << (ns.empty() ? "any namespace" : "the namespace " + ns) << ".\n";
  }
  print(options, *overviews, out);
  return 0;
}

}  // namespace compilecache::cli
