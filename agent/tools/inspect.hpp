#pragma once

#include <string>

#include "store/store.hpp"

// The store's tools for people: what is in it, whether it is whole, and taking an archive out and
// in. All print to standard output, as text or as JSON, and return the process's exit code.

namespace compilecache::agent {

// Whose store it is, its archives with their layers, GPU products, and how many bytes are shared.
// 1: it is no store, or its index or an archive of it cannot be read.
int run_inspect(store::Store& store, bool json);

// Reads every byte of one archive (its name or its manifest's digest) or of all in the index. 1:
// one is not whole, or there is none to look at.
int run_verify(store::Store& store, const std::string& archive, bool json);

// Writes an archive (name or digest) to `file`, an OCI archive; as an OCI image where `image` is
// set.
int run_export(store::Store& store, const std::string& archive, const std::string& file, bool image,
               bool json);

// Puts the archive of an OCI archive into the store at that path, under `name` or its own. The
// store is made where there is nothing yet.
int run_import(const std::string& path, const std::string& file, const std::string& name,
               bool json);

}  // namespace compilecache::agent
