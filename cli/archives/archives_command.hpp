#pragma once

#include <iosfwd>
#include <string>

#include "cli/cluster/cluster.hpp"

// `kubectl compilecache archives [CACHE]`: lists archives (archive_table.hpp).

namespace compilecache::cli {

struct ArchivesOptions {
  ClusterOptions cluster;
  std::string cache;   // empty: of all CompileCaches of the namespace
  std::string output;  // "", "wide", "json", "yaml"
};

// The exit status: 0 when they were told, 1 when they cannot be read.
int run_archives(const ArchivesOptions& options, std::ostream& out, std::ostream& errors);

}  // namespace compilecache::cli
