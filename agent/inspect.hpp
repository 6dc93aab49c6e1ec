#pragma once

#include <string>

// The store's tools for people: what is in it, and whether it is whole. Both print to standard
// output and return the process's exit code.

namespace compilecache::agent {

// Whose store it is and its archives, as a table or as JSON.
int run_inspect(const std::string& store, bool json);

// Reads every byte of one archive (a manifest's digest) or of all in the index. 1: one is not
// whole.
int run_verify(const std::string& store, const std::string& digest, bool json);

}  // namespace compilecache::agent
