#pragma once

#include <iosfwd>
#include <string>

#include "cli/cluster/cluster.hpp"

// `kubectl compilecache doctor`: whether an installation works for a namespace, or (preflight)
// whether a cluster is ready for one. Its checks are in checks.hpp.

namespace compilecache::cli {

struct DoctorOptions {
  ClusterOptions cluster;
  std::string operator_namespace;  // empty: where the operator is found
  bool preflight = false;
  std::string output;  // "", "json", "yaml"
};

// Returns the exit status: 0 if nothing has failed, warnings or not, 1 if something has, or the API
// server does not answer.
int run_doctor(const DoctorOptions& options, std::ostream& out, std::ostream& errors);

}  // namespace compilecache::cli
