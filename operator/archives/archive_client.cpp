#include "operator/archives/archive_client.hpp"

#include <nlohmann/json.hpp>

#include "operator/cluster/cluster_view.hpp"

namespace compilecache::controller {
namespace {

constexpr int kTries = 5;

Result<api::CompileCacheArchive> parsed(const Result<nlohmann::json>& object) {
  if (!object) return unexpected(object.error());
  return api::parse_archive(*object);
}

}  // namespace

Result<api::CompileCacheArchive> KubeArchiveClient::get(const std::string& ns,
                                                        const std::string& name) {
  return parsed(client_.get(resources::kCompileCacheArchives, ns, name));
}

Result<std::vector<api::CompileCacheArchive>> KubeArchiveClient::list(const std::string& ns,
                                                                      const std::string& cache) {
  kube::ListOptions options;
  options.ns = ns;
  const auto page = client_.list_all(resources::kCompileCacheArchives, options);
  if (!page) return unexpected(page.error());
  std::vector<api::CompileCacheArchive> archives;
  for (const nlohmann::json& item : page->at("items")) {
    // One that cannot be read may still name blobs, so nothing may be decided without it.
    auto archive = api::parse_archive(item);
    if (!archive) return unexpected(archive.error());
    if (archive->cache == cache) archives.push_back(std::move(*archive));
  }
  return archives;
}

Result<api::CompileCacheArchive> KubeArchiveClient::create(
    const api::CompileCacheArchive& archive) {
  return parsed(client_.create(resources::kCompileCacheArchives, api::new_archive_json(archive)));
}

Result<api::CompileCacheArchive> KubeArchiveClient::update_status(
    const api::CompileCacheArchive& archive) {
  nlohmann::json object = api::new_archive_json(archive);
  object["metadata"]["resourceVersion"] = archive.metadata.resource_version;
  object["metadata"]["uid"] = archive.metadata.uid;
  object["status"] = api::status_json(archive);
  return parsed(client_.update_status(resources::kCompileCacheArchives, object));
}

Result<api::CompileCacheArchive> modify_archive(
    ArchiveClient& archives, const std::string& ns, const std::string& name,
    const std::function<bool(api::CompileCacheArchive&)>& change) {
  for (int attempt = 0;; ++attempt) {
    auto archive = archives.get(ns, name);
    if (!archive || !change(*archive)) return archive;
    auto written = archives.update_status(*archive);
    const bool conflict = !written && written.error().code == ErrorCode::kConflict;
    if (!conflict || attempt + 1 >= kTries) return written;
  }
}

}  // namespace compilecache::controller
