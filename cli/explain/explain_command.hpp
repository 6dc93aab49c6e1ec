#pragma once

#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "cli/cluster/workload_template.hpp"

// `kubectl compilecache explain POD` and `explain WORKLOAD`: reads what the API server knows of one
// pod and explains how it started (pod_story.hpp), or what the pods of a workload have in common
// (workload_story.hpp). It needs the right to read pods; it says what could not be read.

namespace compilecache::cli {

struct ExplainOptions {
  std::vector<std::string> what;  // "web-1", "pod/web-1", "deployment/web", or "deployment", "web"
  std::string ns;                 // empty: the kubeconfig's
  std::string kubeconfig, context;
  std::string output;  // "", "json", "yaml"
};

// The pod or workload. kInvalid: the words name nothing that can be explained.
struct Explained {
  std::string pod;  // empty: a workload
  std::optional<WorkloadName> workload;
};
Result<Explained> explained(const std::vector<std::string>& words);

// Returns the exit status: 0 when it was printed, 1 when the pod or the workload cannot be read, 2
// when the words name neither; the reason is on `errors`.
int run_explain(const ExplainOptions& options, std::ostream& out, std::ostream& errors);

}  // namespace compilecache::cli
