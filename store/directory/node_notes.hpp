#pragma once

#include <string>

#include "base/error.hpp"

namespace compilecache::store {

// Notes of the nodes' GPU products, see OfflineIndex (store/offline_index.hpp). There is one file
// for each node, replaced by rename, so savers on many nodes never lose or tear each other's notes.
Status note_node_product(const std::string& store, const std::string& node,
                         const std::string& product);
Result<std::string> read_node_product(const std::string& store, const std::string& node);

}  // namespace compilecache::store
