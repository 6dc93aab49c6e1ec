#pragma once

#include <iosfwd>
#include <string>

#include "cli/archives/users_registry.hpp"
#include "cli/cluster/cluster.hpp"

// `kubectl compilecache export CACHE/ARCHIVE -f FILE`: an archive as a file, from a user's registry
// or, through a Job, from a volume.

namespace compilecache::cli {

struct ExportCommandOptions {
  ClusterOptions cluster;
  std::string archive;  // CACHE/ARCHIVE
  std::string file;
  bool image = false;
  RegistryLogin login;
  std::string tool_image;  // of the Job; empty: what the operator uses in the namespace
  int timeout_seconds = 1800;
};

// The exit status: 0 when the file was written, 1 when not; then there is none.
int run_export(const ExportCommandOptions& options, std::ostream& out, std::ostream& errors);

}  // namespace compilecache::cli
