#pragma once

#include <string>
#include <vector>

#include "base/error.hpp"
#include "store/index.hpp"

// index.json of a store that is a directory, as OfflineIndex says (store/offline_index.hpp).

namespace compilecache::store {

Index read_index(const std::string& store);

// Replaces index.json at once (temporary file, fsync, rename).
Status write_index(const std::string& store, const std::vector<IndexEntry>& entries);

Status update_index(const std::string& store, const IndexEntry& entry);

}  // namespace compilecache::store
