#pragma once

#include <string>

#include "base/error.hpp"

namespace compilecache::store {

// Both kInvalid: a node's name is a DNS subdomain, a product is one line and not empty.
Status check_node_name(const std::string& node);
Status check_node_note(const std::string& node, const std::string& product);

}  // namespace compilecache::store
