#pragma once

#include <chrono>
#include <iosfwd>
#include <string>

#include "cli/archives/copy_plan.hpp"
#include "cli/archives/users_registry.hpp"
#include "cli/cluster/cluster.hpp"

// `kubectl compilecache import FILE --to CACHE`: a CompileCache gets the archive of a file, in the
// one way in which external archives are created: the operator copies it from a store that
// the CompileCache's owner names. That store is a repository into which the file is pushed from
// here, or a folder on the CompileCache's volume, filled by a Job.

namespace compilecache::cli {

struct ImportCommandOptions {
  ClusterOptions cluster;
  std::string file, cache;
  StoreChoice via;  // no repository: the CompileCache's own registry, or its volume
  RegistryLogin login;
  std::string key;         // with which it is signed on the way; empty: it is not
  std::string tool_image;  // of the Job; empty: what the operator uses in the namespace
  std::chrono::seconds timeout = std::chrono::minutes(30);
};

// The exit status: 0 when the archive is there, 1 when not.
int run_import(const ImportCommandOptions& options, std::ostream& out, std::ostream& errors);

}  // namespace compilecache::cli
