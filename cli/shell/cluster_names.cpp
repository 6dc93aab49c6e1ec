#include "cli/shell/cluster_names.hpp"

#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>
#include <set>

#include "api/names.hpp"
#include "base/printable.hpp"
#include "base/strings.hpp"
#include "cli/cluster/workload_template.hpp"
#include "cli/text/json_at.hpp"
#include "cli/text/manifest_files.hpp"
#include "operator/cluster/cluster_view.hpp"

namespace compilecache::cli {
namespace {

using nlohmann::json;

// Somebody sits before a prompt that does not move.
constexpr std::chrono::seconds kTabPatience{3};

std::vector<Candidate> names_of(const kube::Client& client, const kube::Resource& resource,
                                const std::string& ns) {
  std::vector<Candidate> names;
  const auto listed = client.list_all(resource, {.ns = ns, .metadata_only = true});
  if (!listed) return names;
  for (const json& item : listed->at("items")) {
    names.push_back({printable(text_in(item, "/metadata/name")), ""});
  }
  return names;
}

std::string product_of(const api::CompileCacheArchive& archive) {
  const auto product = archive.key.find(api::kGpuProductPart);
  return product == archive.key.end() ? "" : printable(product->second);
}

std::vector<Candidate> archives_of(const Cluster& cluster) {
  std::vector<Candidate> names;
  const auto archives = read_archives(cluster, "");
  if (!archives) return names;
  for (const auto& one : *archives) {
    names.push_back({printable(one.cache + "/" + one.metadata.name), product_of(one)});
  }
  return names;
}

std::vector<Candidate> products_of(const Cluster& cluster) {
  std::set<std::string> products;
  if (const auto archives = read_archives(cluster, "")) {
    for (const auto& one : *archives) products.insert(product_of(one));
  }
  products.erase("");
  std::vector<Candidate> names;
  names.reserve(products.size());
  for (const std::string& product : products) names.push_back({product, ""});
  return names;
}

std::string kubeconfig_file(const ClusterOptions& options) {
  if (!options.kubeconfig.empty()) return options.kubeconfig;
  if (const char* listed = std::getenv("KUBECONFIG"); listed != nullptr && *listed != '\0') {
    return split(listed, ':').front();
  }
  const char* home = std::getenv("HOME");
  return home == nullptr ? "" : std::string(home) + "/.kube/config";
}

std::vector<Candidate> contexts_of(const ClusterOptions& options) {
  std::vector<Candidate> names;
  const auto files = read_files({kubeconfig_file(options)}, std::cin);
  if (!files) return names;
  for (const ManifestFile& file : *files) {
    for (const Manifest& document : file.documents) {
      const json config = json::parse(document.dump());
      for (const json& context : at(config, "/contexts")) {
        names.push_back({printable(text_in(context, "/name")), ""});
      }
    }
  }
  return names;
}

}  // namespace

std::vector<Candidate> cluster_names(NameKind kind, const ClusterOptions& options,
                                     const std::string& workload_kind) {
  if (kind == NameKind::kContext) return contexts_of(options);
  auto cluster = connect(options);
  if (!cluster) return {};
  cluster->client = cluster->client.with_timeout(kTabPatience, 0);
  const kube::Client& client = cluster->client;
  switch (kind) {
    case NameKind::kContext:
      break;
    case NameKind::kNamespace:
      return names_of(client, kube::resources::kNamespaces, "");
    case NameKind::kCache:
      return names_of(client, controller::resources::kCompileCaches, cluster->ns);
    case NameKind::kPod:
      return names_of(client, kube::resources::kPods, cluster->ns);
    case NameKind::kArchive:
      return archives_of(*cluster);
    case NameKind::kGpuProduct:
      return products_of(*cluster);
    case NameKind::kWorkload: {
      const auto workload = workload_named(workload_kind + "/any");
      if (workload) return names_of(client, workload->resource, cluster->ns);
      break;
    }
  }
  return {};
}

}  // namespace compilecache::cli
