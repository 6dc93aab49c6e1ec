#pragma once

#include <iosfwd>
#include <string>

#include "cli/cluster/cluster.hpp"

// `kubectl compilecache enable WORKLOAD`: writes a CompileCache and the annotation on the
// workload's pod template. Its decisions are in enable_plan.hpp.

namespace compilecache::cli {

struct EnableOptions {
  ClusterOptions cluster;
  std::string workload;    // "deployment/web"
  std::string cache_name;  // empty: the workload's
  std::string storage;     // "registry", "claim=NAME"; empty: the registry, where it is installed
  bool yes = false;        // change the cluster, after the plan was shown
  std::string operator_namespace = "compilecache-system";
};

// Shows the plan as YAML on `out`, what it brings about on `errors`. Without `yes` the API server
// only tries it (dry run). If the workload cannot be patched, a CompileCache that was created for
// it is deleted again, also after Ctrl-C (undo_at_signals()). The exit status: 0 if it is enabled
// or could be, 1 if not, 2 if the command line is wrong.
int run_enable(const EnableOptions& options, std::ostream& out, std::ostream& errors);

}  // namespace compilecache::cli
