#pragma once

#include "cli/shell/completion.hpp"

namespace compilecache::cli {

// The names that a cluster and the kubeconfig have, for completion: a NameSource. A cluster that
// does not answer within a few seconds has none. Blocks.
std::vector<Candidate> cluster_names(NameKind kind, const ClusterOptions& options,
                                     const std::string& workload_kind);

}  // namespace compilecache::cli
