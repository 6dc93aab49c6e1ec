#pragma once

#include <string>

#include "base/error.hpp"

namespace compilecache::store {

// Notes which GPU product a node has, as OfflineIndex says (store/offline_index.hpp). One file for
// each node, replaced by rename: savers on many nodes never lose or tear each other's notes.
Status note_node_product(const std::string& store, const std::string& node,
                         const std::string& product);
Result<std::string> read_node_product(const std::string& store, const std::string& node);

}  // namespace compilecache::store
