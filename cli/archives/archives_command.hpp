#pragma once

#include <iosfwd>
#include <string>

#include "cli/cluster/cluster.hpp"

// `kubectl compilecache archives [CACHE|CACHE/ARCHIVE]`: lists archives (archive_table.hpp).

namespace compilecache::cli {

struct ArchivesOptions {
  ClusterOptions cluster;
  std::string what;      // CACHE or CACHE/ARCHIVE; empty: all of the namespace
  std::string selector;  // by labels, as the API server has it; empty: all
  bool all_namespaces = false;
  std::string output;     // "", "wide", "json", "yaml", "name", "jsonpath=…"
  bool watch = false;     // print it again when it has changed, forever
  bool terminal = false;  // each list takes the place of the one before
};

// The exit status: 0 when they were printed, 1 when they cannot be read.
int run_archives(const ArchivesOptions& options, std::ostream& out, std::ostream& errors);

}  // namespace compilecache::cli
