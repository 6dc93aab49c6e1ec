#pragma once

#include <iosfwd>
#include <string>

// `kubectl compilecache status [NAME]`: reads CompileCaches and their archives and shows their
// state (cache_overview.hpp). It needs the right to read the CompileCaches.

namespace compilecache::cli {

struct StatusOptions {
  std::string name;      // empty: all of the namespace
  std::string ns;        // empty: the kubeconfig's
  std::string selector;  // by labels, as the API server has it; empty: all
  bool all_namespaces = false;
  std::string kubeconfig, context;
  std::string output;     // "", "json", "yaml", "name", "jsonpath=…"
  bool watch = false;     // print it again when it has changed, forever
  bool terminal = false;  // each telling takes the place of the one before
};

// Returns the exit status: 0 when it was printed, 1 when the CompileCaches cannot be read (the
// reason is on `errors`).
int run_status(const StatusOptions& options, std::ostream& out, std::ostream& errors);

}  // namespace compilecache::cli
