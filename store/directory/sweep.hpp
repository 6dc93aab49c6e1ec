#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "store/upkeep.hpp"

// Lists and deletes the files of a store's directory, see Upkeep (store/upkeep.hpp).

namespace compilecache::store {

// Files that are not blobs (incomplete ones, .nfs…) are not listed.
Result<std::vector<StoredBlob>> list_blobs(const std::string& store);

// Removes files of the store that are named *.incomplete.
Result<SweepCounts> remove_incomplete(const std::string& store,
                                      std::chrono::milliseconds older_than, WallTime now);

Result<SweepCounts> delete_blobs(const std::string& store, const std::vector<std::string>& digests);

}  // namespace compilecache::store
