#pragma once

#include <chrono>
#include <iosfwd>
#include <string>

#include "cli/archives/users_registry.hpp"
#include "cli/cluster/cluster.hpp"

// `kubectl compilecache export CACHE/ARCHIVE -f FILE`: an archive as a file, from a user's registry
// or, through a Job, from a volume.

namespace compilecache::cli {

struct ExportCommandOptions {
  ClusterOptions cluster;
  std::string archive;    // CACHE/ARCHIVE
  std::string file;       // "-": standard output
  bool terminal = false;  // whether that is one
  bool image = false;
  RegistryLogin login;
  std::string tool_image;  // of the Job; empty: what the operator uses in the namespace
  std::chrono::seconds timeout = std::chrono::minutes(30);
};

// Returns the exit status: 0 when the archive was written, 1 when it was not, and no file is left,
// 2 when it would be bytes on a terminal.
int run_export(const ExportCommandOptions& options, std::ostream& out, std::ostream& errors);

}  // namespace compilecache::cli
