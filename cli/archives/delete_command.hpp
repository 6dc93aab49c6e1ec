#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "cli/cluster/cluster.hpp"

// `kubectl compilecache delete CACHE/ARCHIVE...`: throws archives away by deleting their
// CompileCacheArchives; sweeps then delete the blobs that no other archive has.

namespace compilecache::cli {

struct DeleteOptions {
  ClusterOptions cluster;
  std::vector<std::string> archives;  // CACHE/ARCHIVE
  bool yes = false;                   // do not ask
  bool can_ask = false;               // a person sits at `in`
};

// All are looked up before one is deleted. Archives that changed since then are left alone.
// The exit status: 0 when all are deleted, 1 when one is not or the person said no.
int run_delete(const DeleteOptions& options, std::istream& in, std::ostream& out,
               std::ostream& errors);

}  // namespace compilecache::cli
