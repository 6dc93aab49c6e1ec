#pragma once

#include <iosfwd>
#include <string>

// `kubectl compilecache report`: reads CompileCaches and their archives, and from Prometheus, where
// one is named, the hit rate over time, and writes what came of it (report_html.hpp).

namespace compilecache::cli {

struct ReportOptions {
  std::string ns;  // empty: the kubeconfig's
  bool all_namespaces = false;
  std::string kubeconfig, context;
  std::string output = "html";  // or "json", "yaml"
  std::string prometheus;       // its URL; empty: none
};

// The exit status: 0 when it was made; 1 when the CompileCaches cannot be read, and nothing is on
// `out`; 3 when it was made without the history that Prometheus was to give. Reasons are on
// `errors`.
int run_report(const ReportOptions& options, std::ostream& out, std::ostream& errors);

}  // namespace compilecache::cli
