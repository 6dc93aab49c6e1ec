#pragma once

#include <iosfwd>
#include <string>

#include "cli/report/gpu_price.hpp"

// `kubectl compilecache report`: reads CompileCaches and their archives, and from Prometheus, where
// one is named, the hit rate over time, and writes the page (report_html.hpp).

namespace compilecache::cli {

struct ReportOptions {
  std::string ns;  // empty: the kubeconfig's
  bool all_namespaces = false;
  std::string kubeconfig, context;
  std::string output = "html";  // or "json", "yaml"
  bool terminal = false;        // whether it is written to one: HTML is not
  std::string prometheus;       // its URL; empty: none
  GpuPrice gpu_hour_price;      // an amount of 0: not known
  std::string file;             // where it is written; empty or "-": standard output
  bool open = false;            // shows `file`, which is one, in the user's browser
};

// Returns the exit status; reasons are on `errors`.
//   0  the report is complete
//   1  the CompileCaches cannot be read, or the file cannot be written; nothing is on `out`
//   2  it would be HTML on a terminal
//   3  it lacks the history that Prometheus was to give, or no browser could be opened
int run_report(const ReportOptions& options, std::ostream& out, std::ostream& errors);

}  // namespace compilecache::cli
