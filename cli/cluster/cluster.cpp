#include "cli/cluster/cluster.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "cli/cluster/plain_error.hpp"
#include "kube/config.hpp"
#include "kube/cpprest_transport.hpp"
#include "operator/cluster/cluster_view.hpp"

namespace compilecache::cli {
namespace {

// Somebody is waiting for the answer.
constexpr std::chrono::seconds kPatience{10};
constexpr int kTries = 2;

std::string product_of(const api::CompileCacheArchive& archive) {
  const auto product = archive.key.find(api::kGpuProductPart);
  return product == archive.key.end() ? "" : product->second;
}

}  // namespace

Result<Cluster> connect(const ClusterOptions& options) {
  const auto config = kube::load_config({options.kubeconfig, options.context});
  if (!config) return unexpected(config.error());
  const auto transport = kube::make_transport(*config);
  if (!transport) return unexpected(transport.error());
  return Cluster{kube::Client(*transport, {.field_manager = "kubectl-compilecache"})
                     .with_timeout(kPatience, kTries),
                 options.ns.empty() ? config->default_namespace : options.ns, config->cluster_name};
}

Result<api::CompileCache> read_cache(const Cluster& cluster, const std::string& name) {
  const std::string doing = "reading CompileCache " + cluster.ns + "/" + name;
  const auto object = cluster.client.get(controller::resources::kCompileCaches, cluster.ns, name);
  if (!object) return unexpected(not_read(object.error(), "CompileCache", cluster.ns, name));
  auto cache = api::parse_compile_cache(*object);
  if (!cache) return unexpected(cache.error().with(doing));
  return cache;
}

Result<std::vector<api::CompileCacheArchive>> read_archives(const Cluster& cluster,
                                                            const std::string& cache,
                                                            const std::string& selector) {
  const auto listed = cluster.client.list_all(controller::resources::kCompileCacheArchives,
                                              {.ns = cluster.ns, .label_selector = selector});
  if (!listed) return unexpected(plain_error(listed.error()));
  std::vector<api::CompileCacheArchive> archives;
  for (const nlohmann::json& item : listed->at("items")) {
    auto archive = api::parse_archive(item);
    if (!archive || !archive->head.exists()) continue;
    if (cache.empty() || archive->cache == cache) archives.push_back(std::move(*archive));
  }
  std::sort(archives.begin(), archives.end(), [](const auto& a, const auto& b) {
    return std::make_tuple(a.metadata.ns, a.cache, product_of(a), a.metadata.name) <
           std::make_tuple(b.metadata.ns, b.cache, product_of(b), b.metadata.name);
  });
  return archives;
}

Result<ArchiveName> parse_archive_name(const std::string& text) {
  const size_t slash = text.find('/');
  if (slash == std::string::npos) {
    return fail(ErrorCode::kInvalid,
                "name the CompileCache of \"" + text + "\" too: CACHE/" + text);
  }
  ArchiveName name{text.substr(0, slash), text.substr(slash + 1)};
  if (name.cache.empty() || name.name.empty() || name.name.find('/') != std::string::npos) {
    return fail(ErrorCode::kInvalid,
                "\"" + text + "\" names no archive: write CACHE/ARCHIVE, as in llama/llama-3f2a91");
  }
  return name;
}

Result<api::CompileCacheArchive> read_archive(const Cluster& cluster, const ArchiveName& name) {
  const std::string doing = "reading CompileCacheArchive " + cluster.ns + "/" + name.name;
  const auto object =
      cluster.client.get(controller::resources::kCompileCacheArchives, cluster.ns, name.name);
  if (!object) return unexpected(not_read(object.error(), "archive", cluster.ns, name.name));
  auto archive = api::parse_archive(*object);
  if (!archive) return unexpected(archive.error().with(doing));
  if (archive->cache != name.cache) {
    return fail(ErrorCode::kNotFound, "archive \"" + name.name + "\" is one of CompileCache \"" +
                                          archive->cache + "\", not of \"" + name.cache + "\"");
  }
  return archive;
}

Result<std::vector<api::CompileCacheArchive>> read_named_archives(const Cluster& cluster,
                                                                  const std::string& what,
                                                                  const std::string& selector) {
  if (what.find('/') != std::string::npos) {
    const auto name = parse_archive_name(what);
    if (!name) return unexpected(name.error());
    auto archive = read_archive(cluster, *name);
    if (!archive) return unexpected(archive.error());
    return std::vector{std::move(*archive)};
  }
  if (!what.empty()) {
    if (auto cache = read_cache(cluster, what); !cache) return unexpected(cache.error());
  }
  return read_archives(cluster, what, selector);
}

}  // namespace compilecache::cli
