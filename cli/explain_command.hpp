#pragma once

#include <iosfwd>
#include <string>

// `kubectl compilecache explain POD`: reads what the API server knows of one pod and tells its
// story. Works for whoever may read the pod; what else may not be read is said. What it tells is in
// pod_story.hpp.

namespace compilecache::cli {

struct ExplainOptions {
  std::string pod;
  std::string ns;  // empty: the kubeconfig's
  std::string kubeconfig, context;
  std::string output;  // "", "json"
};

// The exit status: 0 when the story was told, 1 when the pod cannot be read (the reason is on
// `errors`).
int run_explain(const ExplainOptions& options, std::ostream& out, std::ostream& errors);

}  // namespace compilecache::cli
