#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "cli/archives/users_registry.hpp"
#include "cli/cluster/cluster.hpp"

// `kubectl compilecache sign CACHE/ARCHIVE... --key FILE`: vouches for archives in a registry of
// yours, so that CompileCaches that trust the key (spec.trust) take them.

namespace compilecache::cli {

struct SignOptions {
  ClusterOptions cluster;
  std::vector<std::string> archives;
  std::string key;
  RegistryLogin login;
};

// The exit status: 0 when all are signed, 1 when one is not.
int run_sign(const SignOptions& options, std::ostream& out, std::ostream& errors);

}  // namespace compilecache::cli
