#pragma once

#include <string>

#include "base/error.hpp"
#include "store/upkeep.hpp"

namespace compilecache::store {

// Tests the operations that saving needs: create, write, fsync, rename over an existing file, fsync
// of the directory, remove. The error names the step that failed.
Result<StoreProbe> probe_store(const std::string& store);

}  // namespace compilecache::store
