#pragma once

#include <string>
#include <vector>

#include "base/error.hpp"
#include "store/index.hpp"

// Implements OfflineIndex (store/offline_index.hpp) with the index.json of a store's directory.

namespace compilecache::store {

Result<Index> read_index(const std::string& store);

// Replaces index.json atomically (temporary file, fsync, rename).
Status write_index(const std::string& store, const std::vector<IndexEntry>& entries);

Status update_index(const std::string& store, const IndexEntry& entry);
Status extend_index(const std::string& store, const std::string& expected, const IndexEntry& entry);

}  // namespace compilecache::store
