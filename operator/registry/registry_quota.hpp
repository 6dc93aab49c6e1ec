#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "operator/cluster/cluster_view.hpp"
#include "operator/registry/registry_usage.hpp"

// How much a namespace and a CompileCache keep in the installation's own registry, and may. Who is
// above it goes on loading and saves nothing more, until collection or somebody makes room.
//
//   const auto full = over_quota(cache, registry_use(view, cache, &usage), namespace_share);
//   if (full) facts.over_quota = full->reason;  // "quota_exceeded"
//   if (full) storage.over_quota = full->message;  // for StorageReady, which stays True
//
// Of a namespace counts what is really in its repositories, also of CompileCaches that are gone and
// of saves that nobody committed; before the first audit, and of a CompileCache, what the
// CompileCacheArchives name. Garbage is freed when the registry is collected. Pure.

namespace compilecache::controller {

struct RegistryUse {
  uint64_t of_namespace = 0;  // bytes, of all its CompileCaches that keep their archives there
  uint64_t of_cache = 0;
};
// `usage`: null where nobody looks into the registry.
RegistryUse registry_use(const ClusterView& view, const api::CompileCache& cache,
                         const RegistryUsage* usage);

struct QuotaExceeded {
  std::string reason;   // one word, for the saver's report
  std::string message;  // for people: whose, how much, what to do
};
// `namespace_share`: bytes; 0: no bound. Nothing: there is room.
std::optional<QuotaExceeded> over_quota(const api::CompileCache& cache, const RegistryUse& use,
                                        uint64_t namespace_share);

}  // namespace compilecache::controller
