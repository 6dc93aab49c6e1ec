#pragma once

#include <chrono>
#include <iosfwd>
#include <string>

#include "cli/archives/users_registry.hpp"
#include "cli/cluster/cluster.hpp"

// `kubectl compilecache verify [CACHE|CACHE/ARCHIVE]`: reads every byte of every archive's current
// generation, as a load does: of a registry from here, of a volume by a Job.

namespace compilecache::cli {

struct VerifyOptions {
  ClusterOptions cluster;
  std::string what;  // CACHE or CACHE/ARCHIVE; empty: all of the namespace
  RegistryLogin login;
  std::string tool_image;  // of the Job; empty: what the operator uses in the namespace
  std::chrono::seconds timeout = std::chrono::minutes(10);  // of each Job
  std::string output;                                       // "", "json", "yaml", "jsonpath=…"
};

// The exit status: 0 when all are whole, 1 when one is not or cannot be read.
int run_verify(const VerifyOptions& options, std::ostream& out, std::ostream& errors);

}  // namespace compilecache::cli
