#pragma once

#include <string>
#include <vector>

#include "store/store.hpp"

// Tools for people on a store: show what is in it, verify it, export and import archives. All print
// to standard output, as text or as JSON, and return the exit status.

namespace compilecache::agent {

// Shows the store's owner, its archives with their layers, GPU products, and how many bytes are
// shared. Returns 1 when it is no store, or its index or an archive cannot be read.
int run_inspect(store::Store& store, bool json);

// Reads every byte of some archives (by name or manifest's digest), or (none named) of all in the
// index. Returns 1 when one is not whole, or one that was named is not there.
int run_verify(store::Store& store, const std::vector<std::string>& wanted, bool json);

// Writes an archive (name or digest) to `file`, an OCI archive; as an OCI image where `image` is
// set. To "-", standard output, and says nothing there then.
int run_export(store::Store& store, const std::string& archive, const std::string& file, bool image,
               bool json);

// Imports the archive in an OCI archive file into the store at `path`, under `name` or its own
// name. Makes the store where there is none yet.
int run_import(const std::string& path, const std::string& file, const std::string& name,
               bool json);

}  // namespace compilecache::agent
