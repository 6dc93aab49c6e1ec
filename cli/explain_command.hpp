#pragma once

#include <iosfwd>
#include <string>

// `kubectl compilecache explain POD`: reads what the API server knows of one pod and explains how
// it started (pod_story.hpp). Works for whoever may read the pod; it says which other objects could
// not be read.

namespace compilecache::cli {

struct ExplainOptions {
  std::string pod;
  std::string ns;  // empty: the kubeconfig's
  std::string kubeconfig, context;
  std::string output;  // "", "json"
};

// Returns the exit status: 0 when the pod was explained, 1 when it cannot be read (the reason is on
// `errors`).
int run_explain(const ExplainOptions& options, std::ostream& out, std::ostream& errors);

}  // namespace compilecache::cli
