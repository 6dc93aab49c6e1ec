#pragma once

#include <iosfwd>
#include <string>

#include "cli/cluster/cluster.hpp"

// `kubectl compilecache version`: the version of this program, and, if a cluster answers, of the
// operator and of the API that are installed there.

namespace compilecache::cli {

struct VersionOptions {
  ClusterOptions cluster;
  bool client_only = false;
  std::string output;  // "", "json", "yaml"
  std::string commit;  // of this program
};

// The tag of an image: "0.2.0" of "registry.example:5000/compilecache:0.2.0@sha256:…". Empty: it
// has none. Pure.
std::string tag_of_image(const std::string& image);

// Returns the exit status, 0: a cluster that does not answer is only mentioned on `errors`.
int run_version(const VersionOptions& options, std::ostream& out, std::ostream& errors);

}  // namespace compilecache::cli
