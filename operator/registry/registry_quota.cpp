#include "operator/registry/registry_quota.hpp"

#include <algorithm>

#include "api/agent_api.hpp"
#include "base/quantity.hpp"

namespace compilecache::controller {
namespace {

bool is_kept_there(const ClusterView& view, const api::CompileCache& cache) {
  const auto store = view.store_of(cache);
  return store && store->registry() != nullptr && store->registry()->own;
}

uint64_t bytes_of(const ClusterView& view, const api::CompileCache& cache) {
  uint64_t bytes = 0;
  for (const auto& archive : view.archives_of(cache.metadata.ns, cache.metadata.name)) {
    bytes += static_cast<uint64_t>(std::max<int64_t>(0, archive->head.compressed_bytes));
  }
  return bytes;
}

}  // namespace

RegistryUse registry_use(const ClusterView& view, const api::CompileCache& cache,
                         const RegistryUsage* usage) {
  RegistryUse use{.of_cache = bytes_of(view, cache)};
  const auto found = usage != nullptr ? usage->of_namespace(cache.metadata.ns) : std::nullopt;
  if (found) {
    use.of_namespace = *found;
    return use;
  }
  for (const auto& other : view.caches_of(cache.metadata.ns)) {
    if (is_kept_there(view, *other)) use.of_namespace += bytes_of(view, *other);
  }
  return use;
}

std::optional<QuotaExceeded> over_quota(const api::CompileCache& cache, const RegistryUse& use,
                                        uint64_t namespace_share) {
  if (use.of_cache > cache.spec.retention.max_total_size) {
    return QuotaExceeded{
        api::kQuotaExceeded,
        "its archives take " + format_bytes(use.of_cache) +
            ", more than spec.retention.maxTotalSize (" +
            format_bytes(cache.spec.retention.max_total_size) +
            "): nothing is saved until the oldest are collected; raise it, or delete "
            "CompileCacheArchives that are not needed"};
  }
  if (namespace_share > 0 && use.of_namespace >= namespace_share) {
    return QuotaExceeded{
        api::kQuotaExceeded,
        "the namespace " + cache.metadata.ns + " keeps " + format_bytes(use.of_namespace) +
            " in the installation's registry, and its share is " + format_bytes(namespace_share) +
            ": nothing is saved until it keeps less. Delete CompileCacheArchives that are "
            "not needed (what was deleted counts until it is swept, and archives of deleted "
            "CompileCaches for registry.keepDeleted), lower spec.retention.maxTotalSize, or have "
            "registry.namespaceShare "
            "raised in the operator's settings"};
  }
  return std::nullopt;
}

}  // namespace compilecache::controller
