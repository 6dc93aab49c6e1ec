#include "cli/status/overview_reading.hpp"

#include <nlohmann/json.hpp>
#include <utility>

#include "cli/cluster/plain_error.hpp"
#include "operator/cluster/cluster_view.hpp"

namespace compilecache::cli {
namespace {

using nlohmann::json;

// The objects as they are; `ns` empty: of all namespaces.
Result<json> read_caches(const kube::Client& client, const std::string& ns, const std::string& name,
                         const std::string& selector) {
  if (name.empty()) {
    auto listed = client.list_all(controller::resources::kCompileCaches,
                                  {.ns = ns, .label_selector = selector});
    if (!listed) return unexpected(plain_error(listed.error()));
    return std::move(listed->at("items"));
  }
  auto cache = client.get(controller::resources::kCompileCaches, ns, name);
  if (!cache) return unexpected(not_read(cache.error(), "CompileCache", ns, name));
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

}  // namespace

Result<std::vector<CacheOverview>> read_overviews(const kube::Client& client, const std::string& ns,
                                                  const std::string& name,
                                                  const std::string& selector) {
  const auto objects = read_caches(client, ns, name, selector);
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

std::string none_text(const std::string& ns) {
  return "There is no CompileCache in " + (ns.empty() ? "any namespace" : "the namespace " + ns) +
         ".\n";
}

}  // namespace compilecache::cli
