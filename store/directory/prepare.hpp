#pragma once

#include <string>

#include "base/error.hpp"
#include "store/upkeep.hpp"

// Makes a directory a store, and says whose it is; as Upkeep says (store/upkeep.hpp).

namespace compilecache::store {

// Missing parent directories are made too, 0777 each. kConflict also where it is a folder with
// files in it that is no store, or a link.
Result<PreparedStore> prepare_store(const std::string& store, const StoreOwner& owner, bool adopt);

// kCorrupt: its marker cannot be read.
Result<StoreOwner> read_store_owner(const std::string& store);

}  // namespace compilecache::store
