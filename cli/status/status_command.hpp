#pragma once

#include <iosfwd>
#include <string>

// `kubectl compilecache status [NAME]`: reads CompileCaches and their archives and tells how they
// do (cache_overview.hpp). Works for whoever may read the CompileCaches.

namespace compilecache::cli {

struct StatusOptions {
  std::string name;  // empty: all of the namespace
  std::string ns;    // empty: the kubeconfig's
  bool all_namespaces = false;
  std::string kubeconfig, context;
  std::string output;     // "", "json", "yaml"
  bool watch = false;     // tell it again when it has changed, for ever
  bool terminal = false;  // each telling takes the place of the one before
};

// Returns the exit status: 0 when it was told, 1 when the CompileCaches cannot be read (the reason
// is on `errors`).
int run_status(const StatusOptions& options, std::ostream& out, std::ostream& errors);

}  // namespace compilecache::cli
