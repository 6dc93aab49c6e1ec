#pragma once

#include <string>
#include <vector>

#include "api/compile_cache.hpp"
#include "api/compile_cache_archive.hpp"
#include "base/error.hpp"
#include "kube/client.hpp"

// The cluster that a command works on, as the user of a kubeconfig.
//
//   const auto cluster = connect({.ns = "ml"});
//   if (!cluster) return unexpected(cluster.error());
//   auto archives = read_archives(*cluster, "llama");
//
// Values; each call blocks.

namespace compilecache::cli {

struct ClusterOptions {
  std::string ns;  // empty: the kubeconfig's
  std::string kubeconfig, context;
};

struct Cluster {
  kube::Client client;
  std::string ns;  // never empty
};

Result<Cluster> connect(const ClusterOptions& options);

Result<api::CompileCache> read_cache(const Cluster& cluster, const std::string& name);

// Those that were saved once; of one CompileCache, or (empty) of all of the namespace, by cache,
// GPU product and name.
Result<std::vector<api::CompileCacheArchive>> read_archives(const Cluster& cluster,
                                                            const std::string& cache);

// An archive as people name it: NAME, or CACHE/NAME. kInvalid: neither.
struct ArchiveName {
  std::string cache;  // empty: not said
  std::string name;
};
Result<ArchiveName> parse_archive_name(const std::string& text);

// The archive of that name. kNotFound: there is none, or it is another CompileCache's.
Result<api::CompileCacheArchive> read_archive(const Cluster& cluster, const ArchiveName& name);

}  // namespace compilecache::cli
