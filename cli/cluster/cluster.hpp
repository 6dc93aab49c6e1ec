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
  std::string ns;    // not empty, but for lists of all namespaces
  std::string name;  // of the cluster in the kubeconfig; empty: it has none
};

Result<Cluster> connect(const ClusterOptions& options);

Result<api::CompileCache> read_cache(const Cluster& cluster, const std::string& name);

// Those that were saved once; of one CompileCache, or (empty) of all of the namespace, that the
// label selector selects, by namespace, cache, GPU product and name. An empty Cluster::ns: of all.
Result<std::vector<api::CompileCacheArchive>> read_archives(const Cluster& cluster,
                                                            const std::string& cache,
                                                            const std::string& selector = "");

// An archive as people name it: CACHE/ARCHIVE. kInvalid: it is not written so.
struct ArchiveName {
  std::string cache, name;
};
Result<ArchiveName> parse_archive_name(const std::string& text);

// The archive of that name. kNotFound: there is none, or it is another CompileCache's.
Result<api::CompileCacheArchive> read_archive(const Cluster& cluster, const ArchiveName& name);

// Those that `what` names: CACHE, CACHE/ARCHIVE, or (empty) all of the namespace. kNotFound: there
// is no such CompileCache or archive, where an empty list would hide a slip of the pen.
Result<std::vector<api::CompileCacheArchive>> read_named_archives(const Cluster& cluster,
                                                                  const std::string& what,
                                                                  const std::string& selector = "");

}  // namespace compilecache::cli
