#pragma once

#include <string>
#include <vector>

#include "base/error.hpp"
#include "cli/cluster/cluster.hpp"

namespace compilecache::cli {

// Runs `kubectl`, the one on the PATH, as the same user on the same cluster: what streams bytes
// into and out of containers. Blocks until it ends.
//
//   run_kubectl(options, {"exec", "-i", pod, "-n", ns, "--", "cat"}, {.input = "a", .output =
//   "b"});
struct KubectlFiles {
  std::string input, output;  // standard input and output; empty: nothing, and nowhere
};
// kNotFound: there is no kubectl; kIo: it, or what it ran, failed, with the end of what it said.
Status run_kubectl(const ClusterOptions& cluster, const std::vector<std::string>& arguments,
                   const KubectlFiles& files);

}  // namespace compilecache::cli
