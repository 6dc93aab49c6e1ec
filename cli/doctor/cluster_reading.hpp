#pragma once

#include <string>

#include "cli/cluster/cluster.hpp"
#include "cli/doctor/cluster_facts.hpp"

namespace compilecache::cli {

struct ReadingOptions {
  std::string operator_ns;  // empty: where the webhook or the operator is found
  bool preflight = false;
};

// Reads all that the checks need, as the user of the kubeconfig; what may not be read becomes an
// error in its place. Changes nothing: a pod is created as a dry run. Blocks on the API server.
// Fails when that does not answer at all.
Result<ClusterFacts> read_cluster(const Cluster& cluster, const ReadingOptions& options);

}  // namespace compilecache::cli
