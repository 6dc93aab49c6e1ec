#pragma once

#include <string>

#include "base/error.hpp"
#include "store/upkeep.hpp"

// Makes a directory a store and reads its owner, see Upkeep (store/upkeep.hpp).

namespace compilecache::store {

// Missing parent directories are created too, with mode 0777. kConflict is also returned if the
// path is a link, or a folder that has files but is not a store.
Result<PreparedStore> prepare_store(const std::string& store, const StoreOwner& owner, bool adopt);

// kCorrupt: the store's marker cannot be read.
Result<StoreOwner> read_store_owner(const std::string& store);

}  // namespace compilecache::store
