#pragma once

#include <chrono>
#include <iosfwd>
#include <string>

#include "cli/archives/copy_plan.hpp"
#include "cli/cluster/cluster.hpp"

// `kubectl compilecache copy CACHE --to OTHER`: the operator copies CACHE's archives into another
// CompileCache, which is made where there is none of that name.

namespace compilecache::cli {

struct CopyOptions {
  ClusterOptions cluster;
  std::string from, to;
  StoreChoice target;  // of one that is to be made
  std::chrono::seconds timeout = std::chrono::minutes(30);
};

// The exit status: 0 when the archives are there, 1 when not.
int run_copy(const CopyOptions& options, std::ostream& out, std::ostream& errors);

}  // namespace compilecache::cli
