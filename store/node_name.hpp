#pragma once

#include <string>

#include "base/error.hpp"

namespace compilecache::store {

// kInvalid: the node's name is not a DNS subdomain, or the product is empty or more than one line.
Status check_node_name(const std::string& node);
Status check_node_note(const std::string& node, const std::string& product);

}  // namespace compilecache::store
